"""Gradients that are exactly zero or not finite give an attack nothing to follow.

The effect is the share of samples that no white-box attack broke while at least half of the gradients it
received were of that kind, in every white-box attack that asked for any. The test is one-sided and binomial,
against a share of `SMALLEST_EFFECT` that sound models with saturated outputs may show.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import numpy as np

from unmask.verdict.comparison import Finding
from unmask.verdict.evidence import SMALLEST_EFFECT, Radius

__all__ = ["GRADIENT_FAULTS", "GradientFault"]


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
