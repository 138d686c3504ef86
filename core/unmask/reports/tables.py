"""The numbers every report shows: rates with their intervals, in one small record each."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs
import numpy as np
import xarray as xr

from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE, Status, is_diagnostic
from unmask.results.accessor import Method

__all__ = ["Problem", "Rate", "problems", "rates"]


@attrs.frozen
class Rate:
    """A fraction with its counts and its interval; NaN where a cell is not whole.

    Attributes:
        value: The fraction.
        numerator: Expected number of successes.
        denominator: Number of samples.
        lower: Lower end of the interval.
        upper: Upper end.
    """

    value: float
    numerator: float
    denominator: float
    lower: float
    upper: float


@attrs.frozen
class Problem:
    """A cell that is not whole.

    Attributes:
        model: Its model.
        attack: Its attack.
        epsilon: Its radius.
        failed: Samples that failed.
        not_run: Samples that were not run.
        samples: All samples of the cell.
        message: Why.
    """

    model: str
    attack: str
    epsilon: float
    failed: int
    not_run: int
    samples: int
    message: str


def rates(
    results: xr.Dataset, measure: str, level: float, method: Method = "clopper-pearson"
) -> dict[tuple[object, ...], Rate]:
    """A measure's rates by (model,), (model, epsilon) or (model, attack, epsilon), as it has them.

    The t interval has no width where all samples agree; Clopper-Pearson's stands there instead.
    """
    interval = results.unmask.interval(measure, method=method, level=level)
    if method == "t":
        exact = results.unmask.interval(measure, level=level)
        interval = interval.where(interval["upper"] > interval["lower"], exact)
    order = [d for d in (MODEL, ATTACK, EPSILON) if d in interval["lower"].dims]
    parts = [
        interval[name].transpose(*order).values
        for name in ("estimate", "numerator", "denominator", "lower", "upper")
    ]
    labels = [interval[d].values.tolist() for d in order]
    return {
        tuple(labels[axis][i] for axis, i in enumerate(place)): Rate(*(float(part[place]) for part in parts))
        for place in np.ndindex(parts[0].shape)
    }


def problems(results: xr.Dataset) -> Iterator[Problem]:
    """The cells that failed or were not run, wholly or in part.

    What a run added for its verdict is meant to cover some samples only, and counts when it failed.
    """
    status = results["status"].transpose(MODEL, ATTACK, EPSILON, SAMPLE).values
    messages = results["message"].transpose(MODEL, ATTACK, EPSILON).values
    for i, j, k in np.ndindex(status.shape[:3]):
        failed = int((status[i, j, k] == Status.FAILED).sum())
        not_run = int((status[i, j, k] == Status.NOT_RUN).sum())
        if failed or (not_run and not is_diagnostic(str(results[ATTACK].values[j]))):
            yield Problem(
                model=str(results[MODEL].values[i]),
                attack=str(results[ATTACK].values[j]),
                epsilon=float(results[EPSILON].values[k]),
                failed=failed,
                not_run=not_run,
                samples=status.shape[3],
                message=str(messages[i, j, k]),
            )


def finite(value: float) -> float | None:
    """The number, or None where JSON has no word for it."""
    return float(value) if math.isfinite(value) else None
