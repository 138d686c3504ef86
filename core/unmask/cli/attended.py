"""A command that survives crashes: it works in a child process, and in another one where that crashes."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import mmap
import os
import re
import signal
import sys
import sysconfig
from typing import IO

import attrs

from unmask import crashes

__all__ = ["attended"]

_CRASHES = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGKILL}
)
"""Signals that end a process for what it did; the system sends SIGKILL where no memory is left."""

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_SENT_BY_A_PROCESS = 0
"""`si_code` of a signal that came by `kill`, and so to this process alone; a terminal sends its to both."""

_INTERRUPTED = 128 + signal.SIGINT
"""The exit status of a process that Ctrl-C has ended, also by force."""

_SHOW_CURSOR = b"\x1b[?25h"
_PR_SET_PDEATHSIG = 1


@attrs.define(eq=False)
class _SharedNote:
    """A note in memory that a process shares with its parent; satisfies `unmask.crashes.Note`."""

    memory: mmap.mmap = attrs.field(factory=lambda: mmap.mmap(-1, 2**16))

    def write(self, doing: str) -> None:
        """Replace it; what is too long for it is not noted."""
        content = doing.encode()
        if len(content) > len(self.memory) - 8:
            content = b""
        self.memory[:8] = (0).to_bytes(8, "little")
        self.memory[8 : 8 + len(content)] = content
        self.memory[:8] = len(content).to_bytes(8, "little")

    def read(self) -> str:
        """What the child was doing; empty when nothing that was noted."""
        size = int.from_bytes(self.memory[:8], "little")
        return self.memory[8 : 8 + size].decode()


def attended() -> None:
    """Return in a child process that goes on with the command; the parent stays here and ends with it.

    When the child is ended by a crash in work that it had noted (`unmask.crashes`), another child takes its
    place, which knows of it. Interrupts and requests to end are the child's; it dies with its parent.

    For Linux: elsewhere a forked process may not use the system's libraries, or there are none.
    """
    note, known = _SharedNote(), dict[str, str]()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    while True:
        traceback = os.fdopen(os.memfd_create("unmask-traceback"), "w+b", buffering=0)
        parent, child = os.getpid(), os.fork()
        if child == 0:
            _die_with(parent)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            faulthandler.enable(traceback)
            crashes.attend(note, known)
            return
        ended = -os.waitstatus_to_exitcode(_awaited(child))
        doing = note.read()
        # Work that ends in any proper way is no longer noted then.
        exited = ended <= 0 and -ended != _INTERRUPTED
        if not doing or doing in known or not (exited or ended in _CRASHES):
            _end_likewise(ended, before)
        known[doing] = _described(ended, traceback)
        note.write("")
        traceback.close()
        if "--fresh" in sys.argv:
            # What the first child began is what the next one goes on with.
            sys.argv.remove("--fresh")
        if os.isatty(2):
            # A live view that was cut off has hidden it.
            os.write(2, _SHOW_CURSOR)


def _die_with(parent: int) -> None:
    """End this process when its parent is killed, so that the run can be taken up at once."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def _awaited(child: int) -> int:
    """The status a child ended with; signals to this process reach it meanwhile."""
    while True:
        got = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
        if got.si_signo == signal.SIGCHLD:
            gone, status = os.waitpid(child, os.WNOHANG)
            if gone == child:
                return status
        elif got.si_code == _SENT_BY_A_PROCESS and got.si_pid != child:
            os.kill(child, got.si_signo)


def _end_likewise(ended: int, mask: set[signal.Signals | int]) -> None:
    """End as the child did, by its exit status or its signal."""
    if ended <= 0:
        os._exit(-ended)
    if ended == signal.SIGINT:
        # Python ends by the signal where it came in the middle of an `exec`, also if it was handled.
        os._exit(_INTERRUPTED)
    if ended != signal.SIGKILL:
        signal.signal(ended, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.kill(os.getpid(), ended)
    os._exit(128 + ended)


def _described(ended: int, traceback: IO[bytes]) -> str:
    """The signal, and the line of Python it came from, where that is known; or the exit status."""
    if ended <= 0:
        return f"an exit in the middle of the work, with status {-ended}"
    if ended == signal.SIGKILL:
        return "SIGKILL, which the system sends where no memory is left"
    name = f"a crash of native code: {signal.Signals(ended).name}"
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
