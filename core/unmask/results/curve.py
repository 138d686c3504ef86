"""Accuracy as a function of the radius, and the area under it."""

from __future__ import annotations

from typing import Literal

import numpy as np
import xarray as xr

from unmask.dimensions import EPSILON
from unmask.errors import UserError, suggestion
from unmask.results import measures

__all__ = ["KINDS", "area", "curves"]

KINDS = ("raw", "monotone")


def curves(
    results: xr.Dataset, *, suite: bool = False, kind: Literal["raw", "monotone"] = "raw"
) -> xr.DataArray:
    """Robust accuracy over (model, attack, epsilon), or (model, epsilon) for the worst case of the suite.

    It begins at radius 0 with the clean accuracy, whether or not the run has that radius. ``monotone`` takes
    at every radius the smallest accuracy of all radii up to it: a larger ball holds the smaller one, so that
    is a valid (and sharper) upper bound on the truth, and a curve that rises says that a search failed.

    Raises:
        UserError: An unknown kind.
    """
    if kind not in KINDS:
        raise UserError(f"'{kind}' is unknown. {suggestion(str(kind), KINDS)}", where="kind")
    per_sample = measures.worst_case_accuracy(results) if suite else measures.robust_accuracy(results)
    rate = per_sample.rate().reset_coords(drop=True).sortby(EPSILON)
    clean = measures.clean_accuracy(results).rate().reset_coords(drop=True)
    if 0.0 not in rate[EPSILON].values:
        # Where nothing was run, there is no curve that could begin.
        start = clean.where(rate.notnull().any(EPSILON)).assign_coords({EPSILON: 0.0}).expand_dims(EPSILON)
        rate = xr.concat([start.transpose(*rate.dims), rate], EPSILON)
    if kind == "monotone":
        rate = rate.copy(data=np.minimum.accumulate(rate.values, axis=rate.get_axis_num(EPSILON)))
    rate = rate.rename("robust_accuracy")
    rate.attrs = {"units": "1", "long_name": "worst-case robust accuracy" if suite else "robust accuracy"}
    rate[EPSILON].attrs = dict(results[EPSILON].attrs)
    return rate


def area(
    results: xr.Dataset, *, suite: bool = False, kind: Literal["raw", "monotone"] = "raw"
) -> xr.DataArray:
    """Area under the curve by the trapezoid rule, divided by the largest radius; NaN where a radius is."""
    curve = curves(results, suite=suite, kind=kind)
    radii = curve[EPSILON].values
    if radii[-1] <= 0:
        raise UserError("the area under the curve needs a radius above zero.", where="epsilons")
    whole: xr.DataArray = curve.integrate(EPSILON) / radii[-1]
    whole = whole.rename("area_under_curve")
    whole.attrs = {
        "units": "1",
        "long_name": f"area under the {kind} accuracy curve, 0 to {radii[-1]:.6g}, normalised",
    }
    return whole
