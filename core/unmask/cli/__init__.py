"""The command line: one file a command, and how commands print.

Command modules import nothing heavy at the top, so that ``unmask --help`` is quick.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "counted", "print_no_more", "printing", "reader_gone"]

_WIDE = 240


def console(*, stderr: bool = False) -> Console:
    """Where a command prints: as wide as the terminal; in a file or pipe, wide enough for whole rows."""
    import os

    from rich.console import Console

    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made = Console(stderr=stderr, highlight=False, width=_WIDE)
    return made


def counted(number: int, what: str) -> str:
    """``1 sample``, ``2 samples``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def reader_gone(cause: BaseException) -> bool:
    """Whether whoever read the output, such as ``head``, has enough."""
    return isinstance(cause, BrokenPipeError) or (
        # Rich's way to end where it meets one.
        isinstance(cause, SystemExit) and isinstance(cause.__context__, BrokenPipeError)
    )


def print_no_more() -> None:
    """Let what is still to be printed get lost; Python would try again at its end, and complain."""
    import os
    import sys
    from pathlib import Path

    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # it is closed, or was never open
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for the rest of the process


@contextmanager
def printing(kept: str) -> Iterator[None]:
    """Print what is kept elsewhere: a reader that has enough is no error, a full disk a small one.

    Args:
        kept: Where it is kept.
    """
    import sys

    import typer

    try:
        yield
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError, SystemExit) as cause:
        if isinstance(cause, SystemExit) and not reader_gone(cause):
            raise
        print_no_more()
        if not reader_gone(cause):
            typer.echo(
                f"error: the report cannot be printed: {str(cause).rstrip('.')}. It is kept in {kept}.",
                err=True,
            )
            raise typer.Exit(1) from None
