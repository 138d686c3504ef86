"""One process in a run folder at a time."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path

from unmask.errors import UserError

__all__ = ["FolderLock"]

NAME = "run.lock"


class FolderLock:
    """Holds a folder until `release`.

    The lock is the operating system's, on a file that says who holds it, so that it ends with its process
    however that ends: a file that a killed run left behind is taken over. Where there are no such locks, as
    on some network file systems, the folder is not guarded.

    Args:
        folder: An existing folder.

    Raises:
        UserError: Another process holds it.
        OSError: The folder cannot be written to.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._descriptor: int | None = None
        while self._descriptor is None:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                if not _locked(descriptor):
                    raise UserError(_held_by(self._path), file=str(folder))
            except BaseException:
                os.close(descriptor)
                raise
            # Another process may have given up, and removed, the file between opening and locking it.
            if _is(descriptor, self._path):
                self._descriptor = descriptor
            else:
                os.close(descriptor)
        os.ftruncate(self._descriptor, 0)
        holder = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
        with contextlib.suppress(OSError):  # such as a full disk; the lock holds all the same
            os.write(self._descriptor, holder.encode())

    def moved(self, folder: Path) -> None:
        """The locked folder has another place now."""
        self._path = folder / NAME

    def release(self) -> None:
        """Let others have the folder."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._descriptor)
        self._descriptor = None


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


def _held_by(path: Path) -> str:
    who = "another run"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        holder = json.loads(path.read_text(encoding="utf-8"))
        who = f"another run (process {holder['pid']} on {holder['host']})"
    return f"is in use by {who}. Wait until it ends, stop it, or choose another folder with -o."
