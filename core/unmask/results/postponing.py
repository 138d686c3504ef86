"""Ctrl-C that waits: libraries that hold a lock when it strikes never give the lock back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from unmask import interrupt

__all__ = ["interrupts_postponed"]

_ENOUGH = 3
"""Presses that end the process at once: what it waits for may never come."""


@contextmanager
def interrupts_postponed() -> Iterator[None]:
    """Work that Ctrl-C must not tear apart: it takes effect when the block is left.

    Only the main thread meets it, so elsewhere this does nothing.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    presses: list[tuple[int, FrameType | None]] = []

    def note(number: int, frame: FrameType | None) -> None:
        presses.append((number, frame))
        if len(presses) >= _ENOUGH:
            interrupt.leave(130)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if presses:
            handler(*presses[0])
