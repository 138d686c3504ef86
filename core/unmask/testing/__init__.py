"""The conformance kit: what every component owes to whoever runs it, as a suite of tests.

A plugin's test file is two lines::

    from unmask.testing import conformance

    globals().update(conformance("my-attack"))

Every function it brings takes no argument, so pytest runs them as they are, and so can anybody else. One
that fails raises `LawBroken`, which says the law, what was seen, and what to do. Built-in components pass the
same functions.

Models with known answers (`Linear`, `Coin`, ...) and `task_of`, which gives what an attack or a gradient
source is called with, are here for tests of your own.
"""

from __future__ import annotations

from unmask.testing.conforming import conformance
from unmask.testing.doors import task_of
from unmask.testing.known import (
    Coin,
    Constant,
    Linear,
    ZeroBackward,
    linear_problem,
    robust_linf,
    small_net,
)
from unmask.testing.laws import LawBroken

__all__ = [
    "Coin",
    "Constant",
    "LawBroken",
    "Linear",
    "ZeroBackward",
    "conformance",
    "linear_problem",
    "robust_linf",
    "small_net",
    "task_of",
]
