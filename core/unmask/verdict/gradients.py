"""Gradients that are zero, not finite, or far from how the answer changes, give an attack nothing to follow.

The effect is the share of samples that no white-box attack broke while at least half of the gradients it
received were of that kind, in every white-box attack that asked for any. The test is one-sided and binomial,
against a share of `SMALLEST_EFFECT` that sound models with saturated outputs may show.

Vanishing and exploding gradients are told by measured slopes (`unmask.evaluation.slopes`), not by their norm
alone: the cross-entropy of a confident sound model has a tiny gradient too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

import attrs
import numpy as np

from unmask.verdict.comparison import Finding
from unmask.verdict.evidence import SMALLEST_EFFECT, Radius

__all__ = ["FARTHEST_SLOPE", "GRADIENT_FAULTS", "SLOPE_FAULTS", "GradientFault", "SlopeFault"]

FARTHEST_SLOPE = 100.0
"""Factor between the slope a gradient tells and the one measured from which they have nothing in common."""


@attrs.frozen
class GradientFault:
    """One way in which gradients are of no use.

    Attributes:
        name: Of the indicator.
        variable: Where its share of the backward passes is stored.
        advice: What it means when it fires.
        missing: What to add when no gradients were asked for.
    """

    name: str
    variable: str
    advice: str
    missing: str = "Add a gradient attack such as 'pgd'."
    evidence: ClassVar[bool] = True

    def look(self, places: Sequence[Radius]) -> list[Finding]:
        """The fault at every radius."""
        return [finding for place in places for finding in self.findings(place)]

    def why_not(self, places: Sequence[Radius], front_end: bool) -> str:
        """What to add so that it can be seen."""
        return self.missing

    def findings(self, radius: Radius) -> Iterable[Finding]:
        """The fault at this radius, or nothing where no white-box attack received gradients."""
        from scipy.stats import binom

        white = radius.of("white-box")
        share = radius.variable(self.variable, white)
        asked = ~np.isnan(share)
        tested = asked.any(axis=0)
        if not tested.any():
            return []
        blind = ((share >= 0.5) | ~asked).all(axis=0) & tested
        stands = radius.correct(white) > 0.5
        count, n = int((blind & stands).sum()), int(tested.sum())
        p_value = float(binom.sf(count - 1, n, SMALLEST_EFFECT))
        worst = white[int(np.nanargmax(np.nanmean(np.where(asked, share, 0.0), axis=1)))]
        return [Finding(self.name, radius.epsilon, count / n, p_value, n, worst.name)]


GRADIENT_FAULTS: tuple[GradientFault, ...] = (
    GradientFault(
        name="zero-gradients",
        variable="gradient_zero",
        advice="The model's gradient is exactly zero on samples that no gradient attack broke, so such "
        "attacks were blind there and their failure says nothing.",
    ),
    GradientFault(
        name="non-finite-gradients",
        variable="gradient_nonfinite",
        advice="The model's gradient is infinite or not a number on samples that no gradient attack broke, "
        "so such attacks were blind there and their failure says nothing.",
    ),
)


@attrs.frozen
class SlopeFault:
    """A gradient whose size has nothing to do with how the margin changes.

    The effect is the share of samples that no white-box attack broke while the two slopes differ by more than
    `FARTHEST_SLOPE`; the test is binomial against `SMALLEST_EFFECT`.

    Attributes:
        name: Of the indicator.
        side: The gradient is too ``small`` or too ``large``.
        advice: What it means when it fires.
    """

    name: str
    side: Literal["small", "large"]
    advice: str
    evidence: ClassVar[bool] = True

    def look(self, places: Sequence[Radius]) -> list[Finding]:
        """The fault at every radius; nothing where slopes were not measured."""
        return [finding for place in places for finding in self._findings(place)]

    def why_not(self, places: Sequence[Radius], front_end: bool) -> str:
        """What to add so that it can be seen."""
        return "Set diagnose = true, so that slopes are measured."

    def _findings(self, radius: Radius) -> Iterable[Finding]:
        from scipy.stats import binom

        white = radius.of("white-box")
        if "slope_predicted" not in radius.results or not white:
            return
        predicted, measured = (
            radius.results[name].values.astype(np.float64) for name in ("slope_predicted", "slope_measured")
        )
        # A gradient of exactly zero is told by another indicator, and a step that changed nothing by none.
        tested = ~np.isnan(predicted) & ~np.isnan(measured) & ~np.isnan(radius.correct(white))
        if not tested.any():
            return
        if self.side == "small":
            wrong = (predicted > 0) & (predicted * FARTHEST_SLOPE < measured)
        else:
            wrong = (measured > 0) & (predicted > FARTHEST_SLOPE * measured)
        count, n = int((wrong & tested & (radius.correct(white) > 0.5)).sum()), int(tested.sum())
        p_value = float(binom.sf(count - 1, n, SMALLEST_EFFECT))
        yield Finding(self.name, radius.epsilon, count / n, p_value, n, white[0].name)


SLOPE_FAULTS: tuple[SlopeFault, ...] = (
    SlopeFault(
        name="vanishing-gradients",
        side="small",
        advice="The model's answers change far more than its gradient says, on samples that no gradient "
        "attack broke, so that gradient has all but vanished on the way and attacks cannot follow it.",
    ),
    SlopeFault(
        name="exploding-gradients",
        side="large",
        advice="The model's gradient is far larger than any change of its answers, on samples that no "
        "gradient attack broke, so it shows a jagged surface rather than the way to an error.",
    ),
)
