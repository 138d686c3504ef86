"""The laws for attacks."""

from __future__ import annotations

from unmask.testing.attacks import access, aims, budget, examples, guest, invariance, randomness
from unmask.testing.subject import Check

__all__ = ["CHECKS"]

CHECKS: tuple[Check, ...] = (
    *examples.CHECKS,
    *invariance.CHECKS,
    *guest.CHECKS,
    *budget.CHECKS,
    *access.CHECKS,
    *randomness.CHECKS,
    *aims.CHECKS,
)
