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
from contextlib import contextmanager
from types import FrameType

import attrs

__all__ = ["asked", "finishing", "orderly", "stop_if_asked"]

_ONE_PRESS = 0.05
"""Seconds within which signals count as one: some senders tell a process, and then its whole group."""


@attrs.define
class _Interruption:
    tell: Callable[[], str]
    working: bool = False
    presses: int = 0
    last: float = -_ONE_PRESS

    def __call__(self, number: int, frame: FrameType | None) -> None:
        last, self.last = self.last, time.monotonic()
        if self.last - last < _ONE_PRESS:
            return
        self.presses += 1
        if self.presses == 1 and self.working:
            # Straight to the stream: the handler may run in the middle of somebody's print.
            os.write(2, self.tell().encode())
            return
        if self.presses > 2:
            # Something between here and the command line swallows the exception.
            os._exit(130)
        raise KeyboardInterrupt


_current: _Interruption | None = None


@contextmanager
def orderly(tell: Callable[[], str]) -> Iterator[None]:
    """Within this block the first Ctrl-C lets `finishing` work end properly.

    Args:
        tell: The line to write to the error stream at the first Ctrl-C.
    """
    global _current
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, _current = _current, _Interruption(tell)
    handler = signal.signal(signal.SIGINT, _current)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
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
