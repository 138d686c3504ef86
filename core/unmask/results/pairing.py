"""Two models, two attacks or two runs, compared on the same samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from unmask import statistics
from unmask.dimensions import SAMPLE
from unmask.errors import UserError

__all__ = ["Paired", "compare_arrays", "compare_paired"]

Floats = NDArray[np.float64]


@attrs.frozen
class Paired:
    """A paired comparison of two correctnesses on the same samples.

    Attributes:
        first: Rate of the first.
        second: Rate of the second.
        difference: First minus second.
        lower: Lower end of the interval of the difference.
        upper: Its upper end.
        only_first: Samples that only the first got right; NaN where correctness is a probability.
        only_second: Samples that only the second got right; likewise.
        p_value: Two-sided: exact McNemar test, or a sign-flip test where correctness is a probability.
        samples: Compared samples.
        test: Which test it was.
        level: Confidence level of the interval.
    """

    first: float
    second: float
    difference: float
    lower: float
    upper: float
    only_first: float
    only_second: float
    p_value: float
    samples: int
    test: str
    level: float

    def as_dict(self) -> Mapping[str, Any]:
        """By name."""
        return attrs.asdict(self)


def compare_paired(first: Floats, second: Floats, level: float = 0.99, seed: int = 0) -> Paired:
    """Compare two correctnesses in [0, 1], one entry a sample; samples that either lacks (NaN) are left out.

    The difference is the share that only the first gets right minus the share that only the second does; its
    interval comes from the Clopper-Pearson intervals of the two shares, each at half the error. It holds for
    every number of samples, at differences of 0 and 1 too. Where correctness is a probability: the bootstrap
    over samples.

    Raises:
        UserError: Different numbers of samples, or a level outside (0, 1).
    """
    if first.shape != second.shape:
        raise UserError(f"a paired test needs the same samples twice, not {first.shape} and {second.shape}.")
    both = np.isfinite(first) & np.isfinite(second)
    a, b = first[both], second[both]
    n = len(a)
    if n == 0:
        nothing = math.nan
        return Paired(
            nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing, 0, "none", level
        )
    difference = float((a - b).mean())
    if np.isin(a, (0.0, 1.0)).all() and np.isin(b, (0.0, 1.0)).all():
        test = statistics.mcnemar_exact(a == 1, b == 1)
        lower, upper = _discordant_interval(test.only_first, test.only_second, n, level)
        return Paired(
            float(a.mean()), float(b.mean()), difference, lower, upper,
            test.only_first, test.only_second, test.p_value, n, "McNemar, exact", level,
        )  # fmt: skip
    lower, upper = statistics.bootstrap_interval(a - b, level, seed)
    one_sided = min(statistics.sign_flip_test(a - b, seed), statistics.sign_flip_test(b - a, seed))
    return Paired(
        float(a.mean()), float(b.mean()), difference, lower, upper,
        math.nan, math.nan, min(1.0, 2 * one_sided), n, "sign flips, bootstrap interval", level,
    )  # fmt: skip


def _discordant_interval(b: int, c: int, n: int, level: float) -> statistics.Interval:
    """Conservative: half the error goes to each of the two cell probabilities, by Clopper-Pearson.

    P(only first) - P(only second) lies between the extremes of the two cells' simultaneous intervals
    (Bonferroni), so the coverage is at least `level` for every n.
    """
    each = 1 - (1 - level) / 2
    first, second = statistics.clopper_pearson(b, n, each), statistics.clopper_pearson(c, n, each)
    return statistics.Interval(max(-1.0, first.lower - second.upper), min(1.0, first.upper - second.lower))


_MEANINGS = {
    "first": "rate of the first",
    "second": "rate of the second",
    "difference": "first minus second, paired per sample",
    "lower": "lower end of the interval of the difference",
    "upper": "upper end of the interval of the difference",
    "only_first": "samples that only the first got right",
    "only_second": "samples that only the second got right",
    "p_value": "two-sided p-value of the paired test",
    "samples": "samples compared",
}


def compare_arrays(
    first: xr.DataArray, second: xr.DataArray, level: float = 0.99, seed: int = 0
) -> xr.Dataset:
    """`compare_paired` in every cell of two arrays with a dimension `sample`; a Dataset without it.

    Variables: those of `Paired`, the text `test` among them.
    """

    def cell(a: Floats, b: Floats) -> tuple[Any, ...]:
        found = compare_paired(a, b, level, seed)
        return (*(float(getattr(found, name)) for name in _MEANINGS), found.test)

    # Coordinates that describe only one of the two would be compared and dropped with noise.
    first, second = first.reset_coords(drop=True), second.reset_coords(drop=True)
    parts = xr.apply_ufunc(
        cell,
        first.astype(np.float64),
        second.astype(np.float64),
        input_core_dims=[[SAMPLE], [SAMPLE]],
        output_core_dims=[[]] * (len(_MEANINGS) + 1),
        output_dtypes=[np.float64] * len(_MEANINGS) + [object],
        vectorize=True,
        join="exact",
    )
    found = xr.Dataset(
        {
            name: part.assign_attrs(units="1", long_name=meaning)
            for (name, meaning), part in zip(_MEANINGS.items(), parts[:-1], strict=True)
        }
    )
    found["test"] = parts[-1].assign_attrs(long_name="the test that was made")
    return found.assign_attrs(level=level)
