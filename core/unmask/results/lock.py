"""One process at a time: at a file, or in a run folder."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from pathlib import Path

from unmask.crashes import attendant
from unmask.errors import UserError

__all__ = ["FileLock", "FolderLock"]

NAME = "run.lock"

_DYING = 2.0
"""Seconds to wait for a folder: a process that was killed holds it until its memory is given back."""


class FileLock:
    """A lock that ends with its process, however that ends.

    It is the operating system's, on a file that says who holds it: a file that a killed process left behind
    is taken over. Where there are no such locks, as on some network file systems, nothing is guarded.

    Args:
        path: The file; made where it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take it, unless another process holds it.

        Raises:
            OSError: The file cannot be made or opened.
        """
        while self._descriptor is None:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                if not _locked(descriptor):
                    os.close(descriptor)
                    return False
            except BaseException:
                os.close(descriptor)
                raise
            # Another process may have given up, and removed, the file between opening and locking it.
            if _is(descriptor, self._path):
                self._descriptor = descriptor
            else:
                os.close(descriptor)
        os.ftruncate(self._descriptor, 0)
        holder = json.dumps({"pid": attendant(), "host": socket.gethostname()})
        with contextlib.suppress(OSError):  # such as a full disk; the lock holds all the same
            os.write(self._descriptor, holder.encode())
        return True

    def holder(self) -> str | None:
        """Who holds it, in words; None where that is not known."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            holder = json.loads(self._path.read_text(encoding="utf-8"))
            return f"process {holder['pid']} on {holder['host']}"
        return None

    def moved(self, path: Path) -> None:
        """The locked file has another place now."""
        self._path = path

    def release(self) -> None:
        """Let others have it."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):  # code of plugins may close anything
            os.close(self._descriptor)
        self._descriptor = None


class FolderLock:
    """Holds a folder until `release`, or until the process ends.

    Args:
        folder: An existing folder.

    Raises:
        UserError: Another process holds it.
        OSError: The folder cannot be written to.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = FileLock(folder / NAME)
        given_up = time.monotonic() + _DYING
        while not self._lock.acquire():
            if time.monotonic() < given_up:
                time.sleep(0.05)
                continue
            holder = self._lock.holder()
            who = f"another run ({holder})" if holder else "another run"
            raise UserError(
                f"is in use by {who}. Wait until it ends, stop it, or choose another folder with -o.",
                file=str(folder),
            )

    def moved(self, folder: Path) -> None:
        """The locked folder has another place now."""
        self._lock.moved(folder / NAME)

    def release(self) -> None:
        """Let others have the folder."""
        self._lock.release()


def _locked(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True


def _is(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
