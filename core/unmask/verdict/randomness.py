"""Randomness is reported, but is no evidence by itself: expected correctness takes it into account."""

from __future__ import annotations

import numpy as np
import xarray as xr

from unmask.verdict.record import Indicator

__all__ = ["randomness"]


def randomness(results: xr.Dataset) -> Indicator:
    """Fires for models that answer at random; the effect is the share of images right or wrong by chance."""
    kind = str(results["randomness"].item())
    clean = results["clean_correct"].values
    random = kind != "deterministic"
    if random and results.attrs.get("protocol") == "single-draw":
        advice = (
            "The model answers at random, and every sample was scored by one draw; the protocol "
            "'expected' leaves luck out."
        )
    elif random:
        how = (
            "exactly, over its members"
            if kind == "enumerated"
            else f"by {int(results['draws'].item())} fresh draws for each example"
        )
        advice = (
            f"The model answers at random, so its scores are expected correctness, taken {how}; one lucky "
            "answer counts neither for nor against it."
        )
    else:
        advice = "The model gives the same answer to the same image."
    return Indicator(
        name="randomness",
        fired=random,
        effect=float(np.mean((clean > 0) & (clean < 1))) if len(clean) else float("nan"),
        samples=len(clean),
        advice=advice,
        evidence=False,
    )
