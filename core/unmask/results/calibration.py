"""Calibration: does the model's confidence say how often it is right, clean and under attack?

All numbers come from what is stored for every sample: the largest mean softmax probability (`confidence`),
the label's (`label_probability`), and the sum of squares over all classes (`squared_probability`), which
together give the Brier score of any number of classes exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
import xarray as xr

from unmask.dimensions import SAMPLE
from unmask.errors import UserError, suggestion
from unmask.results.measures import PerSample, known

__all__ = [
    "EXAMPLES",
    "MEASURES",
    "Examples",
    "brier",
    "calibration_error",
    "confidence",
    "log_loss",
    "reliability",
]

Examples = Literal["final", "clean"]
EXAMPLES = ("final", "clean")
BIN = "bin"


def _variable(results: xr.Dataset, name: str, examples: Examples) -> xr.DataArray:
    if examples not in EXAMPLES:
        raise UserError(f"'{examples}' is unknown. {suggestion(str(examples), EXAMPLES)}", where="examples")
    stored = name if examples == "final" else f"clean_{name}"
    if stored not in results:
        raise UserError(
            f"the result does not hold '{stored}'; it comes from an earlier Unmask. Run its manifest again."
        )
    values = results[stored]
    return values.where(known(results)) if examples == "final" else values


def _named(
    name: str, meaning: str, values: xr.DataArray, examples: Examples, *, proportion: bool = False
) -> PerSample:
    place = "clean images" if examples == "clean" else "final examples"
    return PerSample(name, f"{meaning}, {place}", values, xr.ones_like(values), proportion)


def brier(results: xr.Dataset, examples: Examples = "final") -> PerSample:
    """Squared distance of the probabilities from the label's unit vector (Brier 1950), from 0 to 2."""
    label = _variable(results, "label_probability", examples)
    values = _variable(results, "squared_probability", examples) - 2 * label + 1
    return _named("brier_score", "Brier score", values.clip(0.0, 2.0), examples)


def log_loss(results: xr.Dataset, examples: Examples = "final") -> PerSample:
    """Minus the natural logarithm of the label's probability.

    A probability too small for a float64 counts as the smallest one there is, a loss of 744.4.
    """
    probability = _variable(results, "label_probability", examples)
    smallest = np.finfo(np.float64).smallest_subnormal
    values = probability.copy(data=-np.log(np.maximum(probability.values, smallest)))
    return _named("negative_log_likelihood", "negative log-likelihood", values, examples)


def confidence(results: xr.Dataset, examples: Examples = "final") -> PerSample:
    """The largest softmax probability."""
    values = _variable(results, "confidence", examples)
    return _named("mean_confidence", "mean confidence", values, examples, proportion=True)


MEASURES: Mapping[str, Callable[[xr.Dataset], PerSample]] = {
    "brier_score": brier,
    "negative_log_likelihood": log_loss,
    "mean_confidence": confidence,
}
"""Those that are means over samples, at the final examples."""


def reliability(results: xr.Dataset, bins: int = 15, examples: Examples = "final") -> xr.Dataset:
    """What a reliability diagram shows (DeGroot and Fienberg 1983), over the result's cells and `bin`.

    Bins have equal width on [0, 1] and hold their right end; bin k of B is (k/B, (k+1)/B], the first holds 0.

    Args:
        results: A result.
        bins: How many.
        examples: ``final`` (under attack) or ``clean``.

    Returns:
        `accuracy` and `confidence` (means in the bin, NaN where it is empty) and `count`. A cell that is not
        whole is NaN with count 0.

    Raises:
        UserError: No bins, or unknown examples.
    """
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise UserError(f"must be a whole number, at least 1, not {bins!r}.", where="bins")
    stated = _variable(results, "confidence", examples)
    right = _variable(results, "correct", examples)

    def binned(sure: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not (np.isfinite(sure).all() and np.isfinite(correct).all()):
            return np.full(bins, np.nan), np.full(bins, np.nan), np.zeros(bins)
        place = np.clip(np.ceil(sure * bins).astype(int) - 1, 0, bins - 1)
        count = np.bincount(place, minlength=bins).astype(np.float64)
        some = np.where(count > 0, count, np.nan)
        mean_right = np.bincount(place, weights=correct, minlength=bins) / some
        return mean_right, np.bincount(place, weights=sure, minlength=bins) / some, count

    accuracy, mean, count = xr.apply_ufunc(
        binned,
        stated,
        right,
        input_core_dims=[[SAMPLE], [SAMPLE]],
        output_core_dims=[[BIN], [BIN], [BIN]],
        vectorize=True,
    )
    edges = np.arange(bins + 1) / bins
    found = xr.Dataset({"accuracy": accuracy, "confidence": mean, "count": count})
    found = found.assign_coords(lower=(BIN, edges[:-1]), upper=(BIN, edges[1:]))
    for name, meaning in (
        ("accuracy", "share of the bin's samples that are right"),
        ("confidence", "mean confidence of the bin's samples"),
        ("count", "samples in the bin"),
        ("lower", "lower end of the bin, not in it"),
        ("upper", "upper end of the bin, in it"),
    ):
        found[name].attrs = {"units": "1", "long_name": meaning}
    return found.assign_attrs(bins=bins, binning="equal width on [0, 1], right-closed", examples=examples)


def calibration_error(results: xr.Dataset, bins: int = 15, examples: Examples = "final") -> xr.DataArray:
    """Expected calibration error (Naeini, Cooper and Hauskrecht 2015; Guo et al. 2017, equation 3)."""
    parts = reliability(results, bins, examples)
    total = parts["count"].sum(BIN)
    distance = (parts["count"] * abs(parts["accuracy"] - parts["confidence"])).sum(BIN)
    error = (distance / total.where(total > 0)).rename("calibration_error")
    place = "clean images" if examples == "clean" else "final examples"
    error.attrs = {
        "units": "1",
        "long_name": f"expected calibration error, {place}",
        **{name: parts.attrs[name] for name in ("bins", "binning")},
    }
    return error
