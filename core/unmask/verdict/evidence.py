"""What the indicators look at: one model, one radius, and its samples that were right when clean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from unmask.dimensions import ATTACK, EPSILON, SAMPLE, Status
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
        attacks: Those with an outcome for every sample; of what the run added for the verdict also those with
            an outcome for some.
    """

    epsilon: float
    results: xr.Dataset
    attacks: tuple[AttackRow, ...]
    _worst: dict[frozenset[str], NDArray[np.float64]] = attrs.field(factory=dict, init=False, repr=False)

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return int(self.results.sizes[SAMPLE])

    def of(self, family: Family) -> list[AttackRow]:
        """The attacks of one family."""
        return [row for row in self.attacks if row.family == family]

    def correct(self, attacks: Sequence[AttackRow]) -> NDArray[np.float64]:
        """Every sample's correctness under the worst of these attacks [sample]; NaN where none was run."""
        names = frozenset(attack.name for attack in attacks)
        if names not in self._worst:
            mask = xr.DataArray(np.isin(self.results[ATTACK].values, list(names)), dims=ATTACK)
            self._worst[names] = np.asarray(worst_case(self.results, mask).correct.values, dtype=np.float64)
        return self._worst[names]

    def variable(self, name: str, attacks: Sequence[AttackRow]) -> NDArray[np.float64]:
        """A variable for these attacks [attack, sample]."""
        rows = np.isin(self.results[ATTACK].values, [a.name for a in attacks])
        return np.asarray(self.results[name].isel({ATTACK: rows}).transpose(ATTACK, SAMPLE), dtype=np.float64)

    def known(self, attack: AttackRow) -> NDArray[np.bool_]:
        """Which samples the attack was run on [sample]."""
        here = self.results["status"].isel({ATTACK: self.results[ATTACK].values == attack.name})
        return np.asarray(~np.isin(here.values[0], (Status.FAILED, Status.NOT_RUN)))

    @property
    def deterministic(self) -> bool:
        """The model gives the same answer to the same image."""
        return str(self.results["randomness"].item()) == "deterministic"


def radii(results: xr.Dataset) -> Iterator[Radius]:
    """The radii above zero of a Dataset over (attack, epsilon, sample), that is, of one model."""
    rows = attack_rows(results)
    unknown = np.isin(results["status"].transpose(ATTACK, EPSILON, SAMPLE), (Status.FAILED, Status.NOT_RUN))
    right = np.flatnonzero(results["clean_correct"].values >= 0.5)
    whole = complete(results)
    for i, epsilon in enumerate(results[EPSILON].values):
        if epsilon > 0:
            here = results.isel({EPSILON: i, SAMPLE: right})
            done = whole.isel({EPSILON: i}).values
            part = ~unknown[:, i][:, right].all(axis=1) & np.array(
                [row.diagnostic for row in rows], dtype=bool
            )
            done = done | part
            yield Radius(float(epsilon), here, tuple(r for r, ok in zip(rows, done, strict=True) if ok))
