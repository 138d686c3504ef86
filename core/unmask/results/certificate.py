"""Certified accuracy, from the radii that a certificate gave each sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from unmask.dimensions import EPSILON, MODEL, SAMPLE
from unmask.errors import UserError

__all__ = ["certified_accuracy", "certified_radii"]

RADIUS = "radius"


def certified_radii(results: xr.Dataset) -> xr.DataArray:
    """Radius within which each sample is certified to keep the right class, over (model, sample).

    NaN where the certificate abstained or is for a wrong class: certified at no radius.

    Raises:
        UserError: The run has no certificates.
    """
    if "certified_radius" not in results or "certified_prediction" not in results:
        raise UserError(
            'the result holds no certificates. Run it with metrics = ["certified-radius"].', where="metrics"
        )
    right = results["certified_prediction"] == results["label"]
    return results["certified_radius"].where(right)


def certified_accuracy(results: xr.Dataset, radii: Sequence[float] | None = None) -> xr.DataArray:
    """Share of samples certified to be right within each radius, over (model, radius).

    Args:
        results: A result with certificates.
        radii: Radii in the l2 norm; None: those of the run where its norm is l2, otherwise quarters of the
            largest certified radius.

    Raises:
        UserError: The run has no certificates, or a radius is negative.
    """
    certified = certified_radii(results)
    if radii is None:
        largest = float(certified.max()) if bool(certified.notnull().any()) else 0.0
        radii = (
            results[EPSILON].values.tolist()
            if results.attrs.get("norm") == "l2"
            else np.unique(np.linspace(0.0, largest, 5)).tolist()
        )
    wanted = np.asarray(list(radii), dtype=np.float64)
    if not (wanted >= 0).all():
        raise UserError(f"radii are not negative: {wanted.tolist()}.", where="radii")
    axis = xr.DataArray(
        wanted, dims=RADIUS, coords={RADIUS: wanted}, attrs={"units": "pixel value", "long_name": "l2 radius"}
    )
    held = (certified >= axis).transpose(MODEL, RADIUS, SAMPLE)
    numerator = held.sum(SAMPLE).astype(np.float64).reset_coords(drop=True)
    total = xr.full_like(numerator, float(results.sizes[SAMPLE]))
    rate = (numerator / total).rename("certified_accuracy")
    rate.attrs = {"units": "1", "long_name": "certified accuracy, l2"}
    return rate.assign_coords(numerator=numerator, denominator=total)
