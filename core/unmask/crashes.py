"""Crashes that no `except` sees: noted before they can happen, known when the work starts anew.

Native code, of a plugin or of a library, can end the whole process, and so can a machine without memory. The
command line therefore works in a child process (`unmask.cli.attended`) and starts another one after a crash;
that one learns here what the one before it was doing, leaves it out with the reason, and does the rest. In a
process that nobody attends to, such as a script that calls `unmask.evaluate`, notes go nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import attrs

from unmask.errors import UserError

__all__ = ["Note", "attend", "how_it_ended", "noted", "surviving"]


class Note(Protocol):
    """What outlives the process that writes it."""

    def write(self, doing: str) -> None:
        """Replace the note."""
        ...


@attrs.define
class _Attended:
    note: Note | None = None
    known: Mapping[str, str] = attrs.field(factory=dict)
    doing: str = ""


_here = _Attended()


def attend(note: Note, known: Mapping[str, str]) -> None:
    """Write notes from now on.

    Args:
        note: Where they go.
        known: How a process before this one ended, by what it was doing.
    """
    global _here
    _here = _Attended(note, known)


def _text(doing: Mapping[str, Any]) -> str:
    return json.dumps(dict(doing), sort_keys=True)


def how_it_ended(doing: Mapping[str, Any]) -> str | None:
    """How a process of this run crashed in this very work, in words; None where none did.

    Args:
        doing: What names the work, JSON-able.
    """
    ended = _here.known.get(_text(doing))
    if ended is None:
        return None
    return f"the process was ended by {ended}"


@contextmanager
def noted(doing: Mapping[str, Any]) -> Iterator[None]:
    """Work that is known by its name should the process end in the middle of it; the innermost counts."""
    if _here.note is None:
        yield
        return
    outer, _here.doing = _here.doing, _text(doing)
    _here.note.write(_here.doing)
    try:
        yield
    finally:
        _here.doing = outer
        _here.note.write(outer)


@contextmanager
def surviving(what: str, where: str | None = None) -> Iterator[None]:
    """Work without which the run cannot go on: a crash in it is refused in words by the next process.

    Args:
        what: The work, as it follows "when".
        where: The key of the manifest, or the argument, that is at fault.

    Raises:
        UserError: A process of this run crashed in it.
    """
    doing = {"when": what}
    ended = how_it_ended(doing)
    if ended is not None:
        raise UserError(f"{ended}; this was when {what}. What is finished is kept.", where=where)
    with noted(doing):
        yield
