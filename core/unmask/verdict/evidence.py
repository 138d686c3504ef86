"""What the indicators look at: one model, one radius, and its samples that were right when clean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from unmask.dimensions import ATTACK, EPSILON, SAMPLE
from unmask.results.measures import complete, worst_case
from unmask.verdict.families import AttackRow, Family, attack_rows

__all__ = ["FEWEST_SAMPLES", "LARGEST_P_VALUE", "SMALLEST_EFFECT", "WEAKEST_SEARCH", "Radius", "radii"]

SMALLEST_EFFECT = 0.05
"""Share of the samples below which a difference is not held against a model."""

LARGEST_P_VALUE = 0.01
"""Adjusted p-value an indicator needs to fire."""

FEWEST_SAMPLES = 50
"""Samples, right when clean, without which silence means nothing: one-sided at 0.01 and after Holm's
adjustment for four tests, fewer could hide a difference of a fifth."""

WEAKEST_SEARCH = 10
"""Gradient steps a white-box attack must have spent on a sample it did not break, before another attack's
success there speaks against the gradient rather than against the few steps."""


@attrs.frozen(eq=False)
class Radius:
    """One model at one radius, cut down to the samples whose clean image is right (more often than not).

    Attributes:
        epsilon: The radius.
        results: Dataset over (attack, sample).
        attacks: Those with an outcome for every sample.
    """

    epsilon: float
    results: xr.Dataset
    attacks: tuple[AttackRow, ...]

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return int(self.results.sizes[SAMPLE])

    def of(self, family: Family) -> list[AttackRow]:
        """The attacks of one family."""
        return [row for row in self.attacks if row.family == family]

    def correct(self, attacks: Sequence[AttackRow]) -> NDArray[np.float64]:
        """Every sample's correctness under the worst of these attacks [sample]."""
        mask = xr.DataArray(np.isin(self.results[ATTACK].values, [a.name for a in attacks]), dims=ATTACK)
        return np.asarray(worst_case(self.results, mask).correct.values, dtype=np.float64)

    def variable(self, name: str, attacks: Sequence[AttackRow]) -> NDArray[np.float64]:
        """A variable for these attacks [attack, sample]."""
        rows = np.isin(self.results[ATTACK].values, [a.name for a in attacks])
        return np.asarray(self.results[name].isel({ATTACK: rows}).transpose(ATTACK, SAMPLE), dtype=np.float64)


def radii(results: xr.Dataset) -> Iterator[Radius]:
    """The radii above zero of a Dataset over (attack, epsilon, sample), that is, of one model."""
    rows = attack_rows(results)
    right = np.flatnonzero(results["clean_correct"].values >= 0.5)
    whole = complete(results)
    for i, epsilon in enumerate(results[EPSILON].values):
        if epsilon > 0:
            here = results.isel({EPSILON: i, SAMPLE: right})
            done = whole.isel({EPSILON: i}).values
            yield Radius(float(epsilon), here, tuple(r for r, ok in zip(rows, done, strict=True) if ok))
