"""A limit that also ends code which never comes back to the door.

In the main thread of a POSIX process a timer interrupts it, in a blocking system call too; in any other
thread an exception is raised in it as soon as it runs Python again. What cannot be interrupted in this way
is native code that neither returns nor looks at signals: only ending the process helps there, which worker
processes do.
"""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from unmask.interrupt import CellTimeoutError

__all__ = ["limited"]

T = TypeVar("T")

_AGAIN = 1.0
"""Seconds until the exception is raised once more, for code that swallows it."""


def limited(seconds: float | None, work: Callable[[], T]) -> T:
    """What `work` returns.

    Args:
        seconds: How long it may take; None: as long as it likes.
        work: What to do.

    Raises:
        CellTimeoutError: It took longer.
    """
    if seconds is None:
        return work()
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
        return _by_timer(seconds, work)
    return _by_watcher(seconds, work)


def _by_timer(seconds: float, work: Callable[[], T]) -> T:
    over = False

    def raise_timeout(number: int, frame: FrameType | None) -> None:
        if not over:
            raise CellTimeoutError

    started = time.monotonic()
    others, interval = signal.getitimer(signal.ITIMER_REAL)
    handler = signal.getsignal(signal.SIGALRM)
    # Twice, because the exception may come inside the first `finally`, but then not again for a while.
    try:
        try:
            signal.signal(signal.SIGALRM, raise_timeout)
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6), _AGAIN)
            return work()
        finally:
            over = True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if others:
            # Somebody's timer was running; it goes off when it would have.
            left = max(others - (time.monotonic() - started), 1e-6)
            signal.setitimer(signal.ITIMER_REAL, left, interval)


def _by_watcher(seconds: float, work: Callable[[], T]) -> T:
    thread = threading.get_ident()
    ended, lock = threading.Event(), threading.Lock()

    def watch() -> None:
        left = seconds
        while not ended.wait(left):
            with lock:
                if not ended.is_set():
                    _raise_in(thread, ctypes.py_object(CellTimeoutError))
            left = _AGAIN

    threading.Thread(target=watch, daemon=True, name="time limit").start()
    try:
        try:
            return work()
        finally:
            ended.set()
    finally:
        with lock:
            ended.set()
            # What was raised but has not arrived is taken back.
            _raise_in(thread, None)


def _raise_in(thread: int, kind: ctypes.py_object[type[BaseException]] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), kind)
