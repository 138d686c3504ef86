"""Outcomes that hang on floating-point rounding, found, marked and counted.

The door and the judge ask the same model about the same example, up to what moving it exactly into ball and
box changes, in batches of different shapes and at different times. Where the two margins differ by more than
what the judge's lies away from zero, another batch shape, or another order of the same sums, could turn the
outcome.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from unmask.dimensions import Status
from unmask.results.outcome import CellOutcome

__all__ = ["hangs_on_rounding", "note_on_borderline"]


def hangs_on_rounding(judged: Tensor, seen: Tensor) -> Tensor:
    """Which outcomes could turn, bool [sample].

    Args:
        judged: The judge's margin at the final example, float64 [sample].
        seen: The door's margin at the same example; not finite where it is another.
    """
    return judged.isfinite() & seen.isfinite() & (judged.abs() < (judged - seen).abs())


def note_on_borderline(cells: Iterable[CellOutcome]) -> list[str]:
    """A sentence that says how many outcomes are marked; none where none is."""
    count = sum(int((cell.status == Status.BORDERLINE).sum()) for cell in cells)
    if not count:
        return []
    words = "outcome hangs" if count == 1 else "outcomes hang"
    return [
        f"{count} {words} on floating-point rounding (status borderline); on another device they may turn."
    ]
