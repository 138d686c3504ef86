"""Two things that hold for every honest classifier: more room never helps it, and enough room breaks it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from unmask import statistics
from unmask.verdict.comparison import Finding
from unmask.verdict.evidence import Radius
from unmask.verdict.families import AttackRow

__all__ = ["ENOUGH", "WIDE", "AboveChance", "RisesWithEpsilon"]

ENOUGH = 100
"""Steps without which a nearest search may end on its way to an example, on linear models too."""

WIDE = 0.5
"""Share of the box's width from which a linf ball holds an image, uniform grey, that tells nothing."""


@attrs.frozen
class AboveChance:
    """Accuracy does not fall to chance although the attacker may show almost any image (Athalye et al. 2018).

    It applies to white-box searches at linf radii of at least half the box's width, where every image can be
    turned into the same grey one, and to those without a bound (nearest searches of at least `ENOUGH` steps,
    whatever the norm; for models that answer the same every time). Searches for a given class take no part:
    that class may be out of reach. The effect is the share of samples that no white-box attack broke, these
    or others, less chance, 1 over the number of classes; the test is binomial.
    """

    name: ClassVar[str] = "accuracy-above-chance"
    evidence: ClassVar[bool] = True
    advice: ClassVar[str] = (
        "Even with room enough to erase the image, attacks that follow the model's gradient do not break it, "
        "which no real robustness explains, so they are misled."
    )

    def look(self, places: Sequence[Radius]) -> Iterator[Finding]:
        """Searches without a bound once, at the largest radius; the others wherever they are wide."""
        from scipy.stats import binom

        for place in places:
            bounded, unbounded = self._candidates(place, last=place is places[-1])
            standing = [place.correct([row]) for row in bounded]
            standing += [_untouched(place, row) for row in unbounded]
            if not standing:
                continue
            with np.errstate(all="ignore"):
                known = ~np.isnan(np.stack(standing)).all(axis=0)
            if not known.any():
                continue
            # What breaks a sample within less room breaks it here too.
            others = [place.correct(place.of("white-box"))]
            worst = np.fmin.reduce(np.stack([*standing, *others]), axis=0)[known]
            chance = 1 / _classes(place)
            count = math.ceil(float(worst.sum()) - 1e-9)
            names = [row.name for row in (*bounded, *unbounded)]
            best = min(range(len(names)), key=lambda i: float(np.nanmean(standing[i])))
            p_value = float(binom.sf(count - 1, len(worst), chance))
            effect = float(worst.mean()) - chance
            yield Finding(self.name, place.epsilon, effect, p_value, len(worst), names[best])

    def why_not(self, places: Sequence[Radius], front_end: bool) -> str:
        """What to add so that it can be seen."""
        return "Set diagnose = true, or add a gradient attack at a linf radius of half the box."

    def _candidates(self, place: Radius, last: bool) -> tuple[list[AttackRow], list[AttackRow]]:
        low, high = json.loads(place.results.attrs.get("bounds", "[0, 1]"))
        wide = place.results.attrs.get("norm") == "linf" and place.epsilon >= WIDE * (high - low)
        white = [row for row in place.of("white-box") if not row.aim]
        bounded = [row for row in white if row.within] if wide else []
        unbounded = (
            [row for row in white if not row.within and _long(row)] if last and place.deterministic else []
        )
        return bounded, unbounded


def _long(row: AttackRow) -> bool:
    """Whether it arrives; what a run adds for its verdict strides through the whole box in few steps."""
    return row.diagnostic or (row.steps is not None and row.steps >= ENOUGH)


def _untouched(place: Radius, row: AttackRow) -> NDArray[np.float64]:
    """1 where a search without a bound found nothing, 0 where it did; NaN where it was not run [sample]."""
    lost = np.isinf(place.variable("distance", [row])[0])
    return np.where(place.known(row), lost.astype(np.float64), np.nan)


def _classes(place: Radius) -> int:
    described = json.loads(str(place.results["description"].item()) or "{}").get("classes")
    return int(described) if described else int(place.results["label"].values.max(initial=1)) + 1


@attrs.frozen
class RisesWithEpsilon:
    """A search does worse with more room, each radius searched on its own (Carlini et al. 2019, section 5.5).

    The effect is the rise of accuracy from one radius to the next; paired, one-sided, by sign flips.
    """

    name: ClassVar[str] = "accuracy-rises-with-epsilon"
    evidence: ClassVar[bool] = True
    advice: ClassVar[str] = (
        "An attack with more room breaks fewer samples than with less, although it could have made the same "
        "examples, so the gradient does not lead it."
    )

    def look(self, places: Sequence[Radius]) -> Iterator[Finding]:
        """Every search that was run at each radius as if there were no other."""
        for smaller, larger in pairwise(places):
            if "raw_correct" not in larger.results:
                continue
            common = {row.name for row in smaller.attacks}
            for row in larger.attacks:
                if row.family != "white-box" or row.name not in common:
                    continue
                rise = larger.variable("raw_correct", [row])[0] - smaller.variable("raw_correct", [row])[0]
                rise = rise[~np.isnan(rise)]
                if len(rise):
                    p_value = statistics.sign_flip_test(rise)
                    yield Finding(self.name, larger.epsilon, float(rise.mean()), p_value, len(rise), row.name)

    def why_not(self, places: Sequence[Radius], front_end: bool) -> str:
        """What to add so that it can be seen."""
        if len(places) < 2:
            return "It takes two radii above zero, and diagnose = true."
        return "Set diagnose = true, so that every radius is searched on its own."
