"""A command that survives crashes: it works in a child process, and in another one where that crashes."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import hashlib
import mmap
import os
import re
import signal
import sys
import sysconfig
import time
from collections.abc import Callable
from typing import IO, NoReturn

from unmask import crashes

__all__ = ["attended"]

_FAULTS = frozenset(
    {
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGILL,
        signal.SIGFPE,
        signal.SIGABRT,
        signal.SIGTRAP,
        signal.SIGSYS,
    }
)
"""Signals of code that does what it must not."""

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_SENT_BY_A_PROCESS = 0
"""`si_code` of a signal that came by `kill`, and so to this process alone; a terminal sends its to both."""

_INTERRUPTED = 128 + signal.SIGINT
"""The exit status of a process that Ctrl-C has ended, also by force."""

_UNEXPECTED = 1
_LOOK = 1.0
"""Seconds between two looks at whether the child's work takes too long."""

_GRACE = 5
"""Looks at work that is over its time before it is ended; none are taken while both are stopped (Ctrl-Z)."""

_LINGERING = 10
"""Looks at a child that has written and printed all, but does not end: plugins may leave threads behind."""

_LATE = 0.1
"""Seconds between signals that mean the same."""

_SHOW_CURSOR = b"\x1b[?25h"
_PR_SET_PDEATHSIG = 1


class _Shared(ctypes.Structure):
    _fields_ = (
        ("status", ctypes.c_int64),
        ("until", ctypes.c_double),
        ("told", ctypes.c_uint64),
        ("digests", ctypes.c_uint64 * 8192),
        ("doing", ctypes.c_char * 2**16),
    )


_UNKNOWN = -1
"""The exit status of a child that has not come to its end."""


class _SharedNote:
    """A note in memory that a process shares with its parent; satisfies `unmask.crashes.Note`."""

    def __init__(self) -> None:
        self._shared = _Shared.from_buffer(mmap.mmap(-1, ctypes.sizeof(_Shared)))
        self.attendant = os.getpid()
        self.clear()

    def clear(self) -> None:
        """For a child that starts; what was told is told."""
        self._shared.doing, self._shared.until, self._shared.status = b"", 0.0, _UNKNOWN

    def write(self, doing: str, until: float | None) -> None:
        """As `Note.write`; what is too long for it is not noted."""
        content = doing.encode()
        self._shared.until = 0.0
        self._shared.doing = content if len(content) < ctypes.sizeof(self._shared) // 2 else b""
        self._shared.until = until or 0.0

    def is_news(self, words: str) -> bool:
        """As `Note.is_news`; when too much was told, everything is."""
        digest = int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "little")
        told, digests = self._shared.told, self._shared.digests
        if digest in digests[:told]:
            return False
        if told < len(digests):
            digests[told] = digest
            self._shared.told = told + 1
        return True

    def end(self, status: int) -> None:
        """The command is done; how the process goes down does not matter any more."""
        self._shared.status = status

    @property
    def doing(self) -> str:
        """What the child was doing; empty when nothing that was noted."""
        return bytes(self._shared.doing).decode()

    @property
    def status(self) -> int | None:
        """The exit status of the command; None: it is not done."""
        return None if self._shared.status == _UNKNOWN else self._shared.status

    @property
    def overdue(self) -> bool:
        """The work should have ended by now."""
        until: float = self._shared.until
        return 0.0 < until < time.monotonic()


def attended(work: Callable[[Callable[[], None], Callable[[int], None]], int]) -> NoReturn:
    """Do a command in a child process, and end as it does.

    When the child is ended by a crash in work that it had noted (`unmask.crashes`), or has to be ended
    because such work does not come to its end, another child takes its place, which knows of it.
    Interrupts and requests to end are the child's; it dies with its parent.

    For Linux: elsewhere a forked process may not use the system's libraries, or there are none.

    Args:
        work: The command, in the child; returns its exit status. It is given what lets signals in, to be
            called where they are expected, and what ends the process at once with a status.
    """
    note, known = _SharedNote(), dict[str, str]()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    while True:
        note.clear()
        traceback = os.fdopen(os.memfd_create("unmask-traceback"), "w+b", buffering=0)
        parent, child = os.getpid(), os.fork()
        if child == 0:
            _die_with(parent)
            _do(work, note, known, traceback, before)
        status, overdue, asked = _awaited(child, note)
        ended = -os.waitstatus_to_exitcode(status)
        if note.status is not None:
            os._exit(note.status)
        if ended in asked or ended == signal.SIGINT:
            _end_likewise(ended, before)
        described = crashes.OVERDUE if overdue else f"the process was ended by {_described(ended, traceback)}"
        doing = note.doing
        if not doing or doing in known:
            with contextlib.suppress(OSError):
                os.write(2, f"error: {described}. What is finished is kept.\n".encode())
            os._exit(_UNEXPECTED)
        known[doing] = described
        traceback.close()
        _show_cursor()


def _do(
    work: Callable[[Callable[[], None], Callable[[int], None]], int],
    note: _SharedNote,
    known: dict[str, str],
    traceback: IO[bytes],
    mask: set[signal.Signals | int],
) -> NoReturn:
    """What the child does."""
    faulthandler.enable(traceback)
    crashes.attend(note, known)

    def leave(status: int) -> None:
        note.end(status)
        os._exit(status)

    status = work(lambda: _let_in(mask), leave)
    # Whoever waits for threads that plugins have left behind need not.
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(status))
    note.end(status)
    sys.exit(status)


def _let_in(mask: set[signal.Signals | int]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _die_with(parent: int) -> None:
    """End this process when its parent is killed, so that the run can be taken up at once."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def _awaited(child: int, note: _SharedNote) -> tuple[int, bool, set[int]]:
    """The status a child ended with, whether its work had to be ended, and the signals that came here.

    Those reach the child meanwhile.
    """
    looks = lingering = 0
    received: set[int] = set()
    while True:
        got = signal.sigtimedwait({*_PASSED_ON, signal.SIGCHLD}, _LOOK)
        if got is None:
            looks = looks + 1 if note.overdue else 0
            lingering += note.status is not None
            if looks == _GRACE or lingering == _LINGERING:
                os.kill(child, signal.SIGKILL)
        elif got.si_signo == signal.SIGCHLD:
            gone, status = os.waitpid(child, os.WNOHANG)
            if gone == child:
                # Who ends every process on its own, as batch systems do, may not have come to this one yet.
                late = signal.sigtimedwait(_PASSED_ON, _LATE) if os.WIFSIGNALED(status) else None
                return status, looks >= _GRACE, received | ({late.si_signo} if late else set())
        else:
            received.add(got.si_signo)
            if got.si_code == _SENT_BY_A_PROCESS and got.si_pid != child:
                os.kill(child, got.si_signo)


def _show_cursor() -> None:
    """A live view that was cut off has hidden it."""
    with contextlib.suppress(OSError):
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)


def _end_likewise(ended: int, mask: set[signal.Signals | int]) -> NoReturn:
    """End by the signal that has ended the child."""
    if ended == signal.SIGINT:
        # Python ends by the signal where it came in the middle of an `exec`, also if it was handled.
        os._exit(_INTERRUPTED)
    _show_cursor()
    signal.signal(ended, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.kill(os.getpid(), ended)
    os._exit(128 + ended)


def _described(ended: int, traceback: IO[bytes]) -> str:
    """The signal, and the line of Python it came from, where that is known; or the exit status."""
    if ended <= 0:
        return f"an exit in the middle of the work, with status {-ended}"
    if ended == signal.SIGKILL:
        return "SIGKILL: no memory was left, or somebody sent it"
    name = signal.Signals(ended).name
    if ended in _FAULTS:
        name = f"a crash of native code: {name}"
    traceback.seek(0)
    written = traceback.read().decode(errors="replace")
    here = written.partition("most recent call first")[2].partition("\n\n")[0]
    places = re.findall(r'File "(.+)", line (\d+) in (.+)', here)
    # What called the library says more than where in the library it was.
    for file, line, function in [place for place in places if not _is_library(place[0])] or places:
        return f"{name} in {function} ({file}, line {line})"
    return name


def _is_library(file: str) -> bool:
    """Whether a file is Python's own or PyTorch's."""
    packages = f"{os.sep}site-packages{os.sep}"
    if packages in file:
        return file.partition(packages)[2].startswith(f"torch{os.sep}")
    return file.startswith(sysconfig.get_path("stdlib"))
