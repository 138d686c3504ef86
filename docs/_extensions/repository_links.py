"""Links to files of the repository that are no pages of the documentation become the path alone.

Markdown on a code host follows ``[bench](../bench/README.md)``; the built pages have no such file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["as_paths", "setup"]

_OUTSIDE = re.compile(r"\[(?P<text>[^\]]+)\]\((?:\.\./)+(?P<path>[^)#\s]+)(?:#[^)\s]*)?\)")


def as_paths(markdown: str, inside: tuple[str, ...] = ()) -> str:
    """Markdown without links that leave the documentation.

    Args:
        markdown: A page.
        inside: First parts of paths that stay in the documentation, seen from a folder of it.
    """

    def path_alone(link: re.Match[str]) -> str:
        text, path = link["text"].strip("`"), link["path"]
        if path.split("/")[0] in inside:
            return link[0]
        return f"`{path}`" if text in (path, path.rsplit("/", 1)[-1]) else f"{link['text']} (`{path}`)"

    return _OUTSIDE.sub(path_alone, markdown)


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    inside = tuple(sorted({path.name for path in app.srcdir.iterdir()})) if "/" in name else ()
    source[0] = as_paths(source[0], inside)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
