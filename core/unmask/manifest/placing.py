"""Errors that name the manifest they come from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from unmask.errors import UserError

__all__ = ["placed_in"]


@contextmanager
def placed_in(file: str | None) -> Iterator[None]:
    """Add the file to a `UserError` of this block that names none."""
    try:
        yield
    except UserError as error:
        if file is None or error.file is not None:
            raise
        raise error.located(file=file) from error
