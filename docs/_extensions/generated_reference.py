"""Writes the pages of the reference that follow from what is installed, before Sphinx reads anything.

They lie in ``reference/generated`` and are never edited: an entry, an option, a command or a key of the
manifest that is added to the code stands in the next build.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

from command_page import command_page
from component_pages import component_pages
from manifest_page import manifest_page
from python_pages import python_pages

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["reference_pages", "setup"]


def reference_pages() -> dict[str, str]:
    """Markdown of every generated page by its name."""
    return {
        **component_pages(),
        "commands": command_page(),
        "manifest": manifest_page(),
        **python_pages(),
    }


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir, "reference", "generated")
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"{name}.md": text for name, text in reference_pages().items()}
    for stale in folder.glob("*.md"):
        if stale.name not in pages:
            stale.unlink()
    for name, text in pages.items():
        path = folder / name
        # Sphinx reads again what is newer than its last build.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
