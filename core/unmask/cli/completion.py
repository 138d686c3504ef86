"""What the shell offers when Tab is pressed: kinds, names of components, manifests and result files.

Called by the shell at every press, so nothing heavy is imported; whatever goes wrong offers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import shorten

import typer

__all__ = ["complete_figure", "complete_kind", "complete_manifest", "complete_name", "complete_result"]

_LINE = 50
"""Letters of a summary that fit beside a name: a line that is broken would be taken for two."""


def complete_kind(incomplete: str) -> list[str]:
    """The kinds of component, in the plural and in the singular."""
    from unmask.plugins.catalog import KINDS, singular

    offered = dict.fromkeys((*KINDS, *map(singular, KINDS)))
    return [kind for kind in offered if kind.startswith(incomplete.lower())]


def complete_name(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The components of the kind that was typed before, with their summaries."""
    from unmask.errors import UserError
    from unmask.plugins.catalog import catalog, kind_named

    with suppress(UserError):
        kind, installed = kind_named(str(context.params.get("kind") or "")), catalog()
        offered = list(installed.entries(kind))
        # Those of other libraries are many: only once their library has been named.
        if ":" in incomplete:
            offered += [each for some in installed.of_libraries(kind).values() for each in some]
        names = [
            (installed.spelt(kind, provided), shorten(provided.entry.summary, _LINE, placeholder=" …"))
            for provided in offered
        ]
        return [(name, summary) for name, summary in names if name.lower().startswith(incomplete.lower())]
    return []


def complete_manifest(incomplete: str) -> list[str]:
    """Manifests, result files to run again, and folders on the way to them."""
    return list(_files(incomplete, (".toml", ".nc")))


def complete_result(incomplete: str) -> list[str]:
    """Result files and the folders they lie in."""
    return list(_files(incomplete, (".nc",)))


def complete_figure(incomplete: str) -> list[str]:
    """The kinds of figure."""
    from unmask.cli.plot import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete)]


def _files(incomplete: str, suffixes: Iterable[str]) -> Iterator[str]:
    typed, _, start = incomplete.rpartition("/")
    prefix = f"{typed}/" if "/" in incomplete else ""
    folder = Path(prefix or ".").expanduser()
    with suppress(OSError):
        for file in sorted(folder.iterdir()):
            if not file.name.startswith(start) or (file.name.startswith(".") and not start):
                continue
            if file.is_dir():
                yield f"{prefix}{file.name}/"
            elif file.suffix in suffixes:
                yield f"{prefix}{file.name}"
