"""Code of plugins and models may end in any way; here every way becomes an ordinary exception.

Native code, of a plugin or of a library, can end the whole process, and so can a machine without memory. The
command line therefore works in a child process (`unmask.cli.attended`) and starts another one after a crash;
that one learns here what the one before it was doing, leaves it out with the reason, and does the rest. In a
process that nobody attends to, such as a script that calls `unmask.evaluate`, notes go nowhere.

The gentler ways are dealt with in every process: `SystemExit` and its like, a Ctrl-C that nobody pressed, and
a forked process that comes back from where only its parent should.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import attrs

from unmask import interrupt
from unmask.errors import UserError, in_words

__all__ = [
    "OVERDUE",
    "CrashError",
    "Note",
    "attend",
    "attendant",
    "news",
    "noted",
    "reason",
    "surviving",
    "tried",
]


OVERDUE = "CellTimeoutError: the cell used up its time, did not end, and was ended by force"
"""Why work has no outcome whose process had to be ended."""


class CrashError(Exception):
    """Code of a plugin or a model ended, or tried to end, the process; says how."""


class Note(Protocol):
    """What outlives the process that writes it."""

    attendant: int
    """The process that reads it."""

    def write(self, doing: str, until: float | None) -> None:
        """Replace the note.

        Args:
            doing: Names the work; empty: none.
            until: `time.monotonic()` after which the process may be ended for still doing it.
        """
        ...

    def is_news(self, words: str) -> bool:
        """Whether no process of this command has said it yet; now one has."""
        ...


@attrs.define
class _Attended:
    note: Note | None = None
    known: Mapping[str, str] = attrs.field(factory=dict)
    doing: str = ""
    until: float | None = None


_here = _Attended()


def attend(note: Note, known: Mapping[str, str]) -> None:
    """Write notes from now on.

    Args:
        note: Where they go.
        known: How a process before this one ended, a clause, by what it was doing.
    """
    global _here
    _here = _Attended(note, known)


def _text(doing: Mapping[str, Any]) -> str:
    return json.dumps(dict(doing), sort_keys=True)


def attendant() -> int:
    """The process to end for this one to end: the one that attends to it, or itself."""
    return os.getpid() if _here.note is None else _here.note.attendant


def news(words: str) -> bool:
    """Whether a sentence is new to the user: processes that crashed may have said it before."""
    return _here.note is None or _here.note.is_news(words)


def reason(cause: BaseException) -> str:
    """Why something failed, as a clause."""
    return str(cause) if isinstance(cause, CrashError) else in_words(cause)


@contextmanager
def noted(doing: Mapping[str, Any], limit: float | None = None) -> Iterator[None]:
    """Work that is known by its name should the process end in the middle of it; the innermost counts.

    Args:
        doing: What names the work, JSON-able.
        limit: Seconds after which the process may be ended by force; None: as for the work around it.
    """
    if _here.note is None:
        yield
        return
    outer = _here.doing, _here.until
    _here.doing = _text(doing)
    if limit is not None:
        _here.until = time.monotonic() + limit
    _here.note.write(_here.doing, _here.until)
    try:
        yield
    finally:
        _here.doing, _here.until = outer
        _here.note.write(*outer)


@contextmanager
def tried(doing: Mapping[str, Any], limit: float | None = None) -> Iterator[None]:
    """Work of plugins and models: whatever they do, this ends in an exception that `except Exception` sees.

    Args:
        doing: What names the work, JSON-able.
        limit: As for `noted`.

    Raises:
        CrashError: A process of this run crashed in this very work; or it raised what is meant to end a
            process.
        KeyboardInterrupt: Ctrl-C was pressed.
        CellTimeoutError: The time of the cell is over.
        Exception: Any other that the work raises.
    """
    ended = _here.known.get(_text(doing))
    if ended is not None:
        raise CrashError(ended)
    process = os.getpid()
    with noted(doing, limit):
        try:
            yield
        except (Exception, interrupt.CellTimeoutError):
            raise
        except BaseException as cause:
            if isinstance(cause, KeyboardInterrupt) and interrupt.possible():
                raise
            raise CrashError(reason(cause)) from cause
        finally:
            if os.getpid() != process:
                # A fork that the work has made and lost sight of: it must not do the rest a second time.
                os._exit(1)


@contextmanager
def surviving(what: str, where: str | None = None, *, theirs: bool = False) -> Iterator[None]:
    """Work without which the run cannot go on: a crash in it is refused in words by the next process.

    Args:
        what: The work, as it follows "when".
        where: The key of the manifest, or the argument, that is at fault.
        theirs: It is the work of a plugin or a model, whose every exception is refused in words.

    Raises:
        UserError: A process of this run crashed in it, or it raised what is meant to end a process.
        Exception: Any other that the work raises.
    """
    try:
        with tried({"when": what}):
            yield
    except UserError:
        raise
    except Exception as error:
        if not theirs and not isinstance(error, CrashError):
            raise
        words = f"{reason(error).rstrip('.')}; this was when {what}. What is finished is kept."
        raise UserError(words, where=where) from error
