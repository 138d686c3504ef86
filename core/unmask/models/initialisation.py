"""Repeatable random numbers for code that draws from the global generators, such as initialisations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from unmask.models.foreign_random import RandomState, seed_everything

__all__ = ["seeded"]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within this block the global generators of torch, NumPy and Python start from `seed`.

    Afterwards they are where they were.
    """
    nothing = nn.Module()
    before = RandomState.capture(nothing)
    try:
        seed_everything(nothing, seed)
        yield
    finally:
        before.restore()
