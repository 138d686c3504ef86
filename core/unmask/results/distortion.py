"""Minimal distortion: how small a perturbation breaks each sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import xarray as xr

from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE
from unmask.errors import UserError, suggestion
from unmask.results.measures import complete, known

__all__ = ["OVER", "distortion_summary", "distortions"]

OVER = ("all", "clean-correct")
BROKEN = 0.5
"""A model that answers at random counts as broken where it is wrong more often than not."""


def distortions(results: xr.Dataset) -> xr.DataArray:
    """The smallest size known to break each sample, over (model, attack, sample).

    For a nearest search: the distance of the example it found. For a search within a ball: the smallest
    radius of the run that broke the sample, an upper bound as fine as the radii lie. 0 for a clean error,
    +inf where nothing was found, NaN where a cell failed or was not run.
    """
    broken = (results["correct"] < BROKEN) & known(results)
    radius = results[EPSILON].where(broken, np.inf).min(EPSILON)
    found = results["distance"].where(known(results)).min(EPSILON)
    nearest = results["search"] == "nearest"
    size = found.where(nearest, radius)
    size = size.where(results["clean_correct"] >= BROKEN, 0.0)
    # The one outcome of a nearest search is read at every radius; a search within needs all its cells.
    whole = complete(results)
    usable = whole.any(EPSILON).where(nearest, whole.all(EPSILON))
    smallest: xr.DataArray = size.where(usable).transpose(MODEL, ATTACK, SAMPLE).rename("minimal_distortion")
    smallest.attrs = {
        "units": "pixel value",
        "long_name": f"smallest {results.attrs.get('norm', '')} perturbation found to break the sample",
    }
    dropped = {"numerator", "denominator", EPSILON} & set(smallest.coords)
    whole_size: xr.DataArray = smallest.drop_vars(dropped)
    return whole_size


def distortion_summary(
    results: xr.Dataset, over: Literal["all", "clean-correct"], quantiles: Sequence[float]
) -> xr.Dataset:
    """Median, mean over successes, count and quantiles of `distortions`, over (model, attack)."""
    if over not in OVER:
        raise UserError(f"'{over}' is unknown. {suggestion(str(over), OVER)}", where="over")
    levels = [float(q) for q in quantiles]
    if any(not 0 <= q <= 1 for q in levels):
        raise UserError(f"quantiles lie between 0 and 1, not {levels}.", where="quantiles")
    size = distortions(results)
    counted = xr.ones_like(size, dtype=bool)
    if over == "clean-correct":
        counted = counted & (results["clean_correct"] >= BROKEN)

    def summarised(values: np.ndarray, mask: np.ndarray) -> tuple[float, float, float, float, np.ndarray]:
        chosen = values[mask]
        if len(chosen) == 0 or np.isnan(chosen).any():
            return np.nan, np.nan, np.nan, float(len(chosen)), np.full(len(levels), np.nan)
        success = np.isfinite(chosen)
        mean = float(chosen[success].mean()) if success.any() else np.nan
        # Some sample's own size: between a finite and an infinite one there is nothing to interpolate.
        cuts = np.quantile(chosen, levels, method="inverted_cdf")
        return float(np.median(chosen)), mean, float(success.sum()), float(len(chosen)), cuts

    parts = xr.apply_ufunc(
        summarised,
        size,
        counted,
        input_core_dims=[[SAMPLE], [SAMPLE]],
        output_core_dims=[[], [], [], [], ["quantile"]],
        vectorize=True,
    )
    what = f"{results.attrs.get('norm', '')} minimal distortion, {over} samples".strip()
    names = ("median", "mean", "count", "samples", "quantiles")
    meanings = (
        f"median {what}; unbroken samples are infinite",
        f"mean {what} over those that were broken",
        "samples that were broken, clean errors at 0 among them"
        if over == "all"
        else "samples that were right when clean and were broken",
        "samples counted",
        f"quantiles of the {what}",
    )
    units = ("pixel value", "pixel value", "1", "1", "pixel value")
    found = xr.Dataset(
        {
            name: part.assign_attrs(units=unit, long_name=meaning)
            for name, part, unit, meaning in zip(names, parts, units, meanings, strict=True)
        }
    )
    return found.assign_coords(quantile=("quantile", levels)).assign_attrs(
        norm=results.attrs.get("norm", ""), over=over
    )
