"""Ctrl-C: once, finish the batch and keep it; twice, stop now; a third time, end the process.

Only where somebody asked for it (the command line): a function that is called from a notebook stops at the
first Ctrl-C, as everything does there. Whatever the moment, files are written whole or not at all.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import attrs

__all__ = ["CellTimeoutError", "asked", "finishing", "leave", "orderly", "possible", "stop_if_asked"]

_ONE_PRESS = 0.1
"""Seconds within which signals count as one: some senders tell a process, and then its whole group."""


class CellTimeoutError(BaseException):
    """A cell used up its time; no `Exception`: plugins that go on after any error are to end too."""

    def __init__(self, message: str = "the cell used up its time") -> None:
        super().__init__(message)


@attrs.define
class _Interruption:
    tell: Callable[[], str]
    leave: Callable[[int], object]
    working: bool = False
    presses: int = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if _is_same_press():
            return
        self.presses += 1
        if self.presses == 1 and self.working:
            # Straight to the stream: the handler may run in the middle of somebody's print.
            with suppress(OSError):
                os.write(2, self.tell().encode())
            return
        if self.presses > 2:
            # Something between here and the command line swallows the exception.
            with suppress(OSError):
                os.write(2, b"\ninterrupted\n")
            self.leave(130)
        raise KeyboardInterrupt


_current: _Interruption | None = None
_last_signal = -_ONE_PRESS


def _is_same_press() -> bool:
    global _last_signal
    before, _last_signal = _last_signal, time.monotonic()
    return _last_signal - before < _ONE_PRESS


@contextmanager
def orderly(tell: Callable[[], str], leave: Callable[[int], object] | None = None) -> Iterator[None]:
    """Within this block the first Ctrl-C lets `finishing` work end properly.

    Args:
        tell: The line to write to the error stream at the first Ctrl-C.
        leave: Ends the process at once, with an exit status; the surrounding block's when None.
    """
    global _current
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = _current
    if leave is None:
        leave = os._exit if before is None else before.leave
    _current = _Interruption(tell, leave)
    handler = signal.signal(signal.SIGINT, _current)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if before is not None:
            before.presses += _current.presses
        _current = before


@contextmanager
def finishing() -> Iterator[None]:
    """Work that looks at `asked` between its batches."""
    if _current is None:
        yield
        return
    current = _current
    current.working = True
    try:
        yield
    finally:
        current.working = False


def leave(status: int) -> None:
    """End the process at once, without any more ado."""
    (os._exit if _current is None else _current.leave)(status)


def possible() -> bool:
    """Whether a `KeyboardInterrupt` can be the user's: where presses are counted, there was one."""
    return _current is None or _current.presses > 0


def asked() -> bool:
    """Whether the work is to end after this batch."""
    return _current is not None and _current.presses > 0


def stop_if_asked() -> None:
    """End the work here, if that was asked for.

    Raises:
        KeyboardInterrupt: It was.
    """
    if asked():
        raise KeyboardInterrupt
