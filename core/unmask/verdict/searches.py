"""White-box searches that differ in one setting must not differ in what they find.

Both sides follow the model's own gradient, with the same attack and at least as many steps on the side that
finds less. The effect is the share of samples that the other setting breaks in addition, the test is paired
as in `unmask.verdict.comparison`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import attrs
import numpy as np

from unmask.verdict.comparison import Finding
from unmask.verdict.evidence import WEAKEST_SEARCH, Radius
from unmask.verdict.families import AttackRow

__all__ = ["SEARCH_COMPARISONS", "SearchComparison"]


@attrs.frozen
class SearchComparison:
    """One setting of a white-box search against another.

    Attributes:
        name: Of the indicator.
        helped: Which searches have the setting that must not matter.
        plain: Which do not, and are compared with these.
        advice: What it means when it fires.
        missing: What to add when no such search was run.
    """

    name: str
    helped: Callable[[AttackRow], bool]
    plain: Callable[[AttackRow], bool]
    advice: str
    missing: str
    evidence: ClassVar[bool] = True

    def look(self, places: Sequence[Radius]) -> list[Finding]:
        """The comparison at every radius."""
        return [finding for place in places for finding in self._findings(place)]

    def why_not(self, places: Sequence[Radius], front_end: bool) -> str:
        """What to add so that it can be made."""
        return self.missing

    def _findings(self, radius: Radius) -> list[Finding]:
        white, found = [row for row in radius.of("white-box") if row.within], []
        for attack in filter(self.helped, white):
            against = [row for row in white if self.plain(row) and _as_long(row, attack)]
            if not against:
                continue
            difference = radius.correct(against) - radius.correct([attack])
            difference = difference[~np.isnan(difference)]
            if len(difference):
                found.append(Finding.of_difference(self.name, radius.epsilon, difference, attack.name))
        return found


def _as_long(plain: AttackRow, helped: AttackRow) -> bool:
    return (
        plain.use == helped.use
        and plain.aims_no_higher_than(helped)
        and plain.steps is not None
        and helped.steps is not None
        and plain.steps >= max(helped.steps, WEAKEST_SEARCH)
    )


SEARCH_COMPARISONS: tuple[SearchComparison, ...] = (
    SearchComparison(
        name="loss-saturation",
        helped=lambda row: row.loss in ("margin", "dlr") and not row.averaged,
        plain=lambda row: row.loss == "ce" and not row.averaged,
        advice="The same attack breaks samples as soon as its loss does not depend on the scale of the "
        "logits, so the model only looks robust because its confidence leaves cross-entropy no gradient.",
        missing="Add 'pgd' with loss = 'margin' beside the one with loss = 'ce'.",
    ),
    SearchComparison(
        name="averaging-beats-single-draws",
        helped=lambda row: row.averaged,
        plain=lambda row: not row.averaged,
        advice="The same attack does better with a gradient averaged over the model's randomness, so single "
        "draws hide the way, and accuracy under attacks that do not average is too high.",
        missing="For a model that answers at random add 'pgd' with eot = 20.",
    ),
)
