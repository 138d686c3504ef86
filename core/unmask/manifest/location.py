"""The folder that relative paths of a manifest are meant to start from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

__all__ = ["current_folder", "resolved", "working_from"]

_folder: ContextVar[Path | None] = ContextVar("unmask_base_folder", default=None)


def current_folder() -> Path | None:
    """The manifest's folder while its components are built; None outside of that."""
    return _folder.get()


@contextmanager
def working_from(folder: Path | str) -> Iterator[Path]:
    """Read relative paths from `folder` within this context; the process's own folder stays as it is."""
    base = Path(folder).resolve()
    token = _folder.set(base)
    try:
        yield base
    finally:
        _folder.reset(token)


def resolved(path: Path | str) -> Path:
    """A path as the manifest means it: absolute, from home (``~``), or below the current folder."""
    found = Path(path).expanduser()
    return found if found.is_absolute() else (current_folder() or Path.cwd()) / found
