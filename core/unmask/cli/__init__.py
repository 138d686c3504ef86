"""The command line: one file a command, and how commands print.

Command modules import nothing heavy at the top, so that ``unmask --help`` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console"]

_WIDE = 240


def console(*, stderr: bool = False) -> Console:
    """Where a command prints: as wide as the terminal; in a file or pipe, wide enough for whole rows."""
    import os

    from rich.console import Console

    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made = Console(stderr=stderr, highlight=False, width=_WIDE)
    return made
