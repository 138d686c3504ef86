"""An error stream that nobody reads, or a full disk behind it, ends no run."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

__all__ = ["error_stream_tolerated"]


class _Tolerant:
    """A stream whose every word may be lost.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, words: str) -> int:
        """Write them, if that can be."""
        # ValueError: it was closed.
        with contextlib.suppress(OSError, ValueError):
            return self._stream.write(words)
        return len(words)

    def flush(self) -> None:
        """Likewise."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def error_stream_tolerated() -> Iterator[None]:
    """Within this block nothing that is said on `sys.stderr` can fail."""
    before = sys.stderr
    with Path(os.devnull).open("w") as nowhere:
        # None: the process was started without one.
        sys.stderr = _Tolerant(nowhere if before is None else before)
        try:
            yield
        finally:
            sys.stderr = before
