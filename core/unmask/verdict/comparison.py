"""Attacks that know less than the gradient must not do better than it (Athalye et al. 2018, section 3).

Each is compared with the best white-box attack of every sample, paired per sample. The effect is the share of
samples that it breaks and no white-box attack does, minus the share the other way round; for models that
answer at random, the difference of the expected correctness. The test is one-sided: McNemar's exact one where
outcomes are 0 or 1, sign flips otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from unmask import statistics
from unmask.verdict.evidence import WEAKEST_SEARCH, Radius
from unmask.verdict.families import AttackRow, Family

__all__ = ["COMPARISONS", "Comparison", "Finding"]


@attrs.frozen
class Finding:
    """An indicator at one radius, before the adjustment for many tests.

    Attributes:
        name: Of the indicator.
        epsilon: The radius.
        effect: Share of samples.
        p_value: Of this one test.
        samples: How many samples.
        attack: Which attack showed it.
    """

    name: str
    epsilon: float
    effect: float
    p_value: float
    samples: int
    attack: str

    @classmethod
    def of_difference(
        cls, name: str, epsilon: float, difference: NDArray[np.float64], attack: str
    ) -> Finding:
        """What a paired difference of outcomes shows: its mean, and whether chance would do as much.

        Args:
            name: Of the indicator.
            epsilon: The radius.
            difference: How much better the attack did, for every sample that both sides have.
            attack: Which attack showed it.
        """
        p_value = statistics.sign_flip_test(difference)
        return cls(name, epsilon, float(difference.mean()), p_value, len(difference), attack)


@attrs.frozen
class Comparison:
    """One family of attacks against the white-box attacks.

    Attributes:
        name: Of the indicator.
        family: Which attacks are compared.
        advice: What it means when it fires.
        missing: What to add when no such attack was run.
        same_search: They are compared with white-box attacks of the same search, where there are any.
    """

    name: str
    family: Family
    advice: str
    missing: str
    same_search: bool = False
    evidence: ClassVar[bool] = True

    def look(self, places: Sequence[Radius]) -> list[Finding]:
        """The comparison at every radius."""
        return [finding for place in places for finding in self.findings(place)]

    def why_not(self, places: Sequence[Radius], front_end: bool) -> str:
        """What to add so that it can be made."""
        if self.family == "bypass" and not front_end:
            return "It has no front end that could be left out of the backward pass."
        if not any(place.of("white-box") for place in places):
            return "Add a gradient attack such as 'pgd' for the others to be compared with."
        compared = [row for place in places for row in place.of(self.family)]
        white = [row for place in places for row in place.of("white-box")]
        if compared and not any(row.aims_no_higher_than(attack) for attack in compared for row in white):
            return "Add a gradient attack without a target: those with one seek less than what is compared."
        if compared:
            return (
                f"Give the gradient attacks at least {WEAKEST_SEARCH} steps, so that the comparison is fair."
            )
        return self.missing

    def findings(self, radius: Radius) -> list[Finding]:
        """The comparison for each attack of the family that can be compared fairly."""
        found = []
        for attack in radius.of(self.family):
            white = self._references(attack, radius.of("white-box"))
            # A search for one class fails where one for any would not, which says nothing of its gradients.
            peers = [row for row in white if row.aims_no_higher_than(attack)]
            if not peers:
                continue
            difference = radius.correct(white) - radius.correct([attack])
            both = ~np.isnan(difference)
            difference = difference[both]
            if not len(difference) or not _fair(attack, peers, radius, both):
                continue
            found.append(Finding.of_difference(self.name, radius.epsilon, difference, attack.name))
        return found

    def _references(self, attack: AttackRow, white: list[AttackRow]) -> list[AttackRow]:
        same = [row for row in white if row.use == attack.use]
        return same if same and self.same_search else white


def _fair(attack: AttackRow, white: Sequence[AttackRow], radius: Radius, both: NDArray[np.bool_]) -> bool:
    """Whether the white-box attacks had a chance: enough steps, or as many as the same search."""
    for row in white:
        if row.use == attack.use and row.steps and attack.steps and row.steps >= attack.steps:
            return True
    standing = both & (radius.correct(white) > 0)
    if not standing.any():
        return True
    spent = np.nansum(radius.variable("backwards", white), axis=0)[standing]
    return bool(np.median(spent) >= WEAKEST_SEARCH)


COMPARISONS: tuple[Comparison, ...] = (
    Comparison(
        name="black-box-beats-white-box",
        family="black-box",
        advice="An attack that sees only the model's scores breaks samples that attacks with full gradients "
        "do not, so the gradients mislead and the accuracy under gradient attacks is too high.",
        missing="Add a score-based attack such as 'square'.",
    ),
    Comparison(
        name="zero-order-beats-first-order",
        family="zero-order",
        advice="The same search does better with a gradient estimated from scores than with the model's own "
        "gradient, so that gradient points the wrong way.",
        missing="Add 'pgd' with gradient = 'finite-difference'.",
        same_search=True,
    ),
    Comparison(
        name="bypass-beats-white-box",
        family="bypass",
        advice="Leaving the front end out of the backward pass breaks samples that its own gradient "
        "protects, so the front end hides the gradient rather than making the model robust.",
        missing="Add 'pgd' with gradient = 'bypass'.",
    ),
    Comparison(
        name="transfer-beats-white-box",
        family="transfer",
        advice="Examples made for another model break samples that attacks on this model's own gradients do "
        "not, so its gradients mislead.",
        missing="Add 'transfer' from an undefended model.",
    ),
)
