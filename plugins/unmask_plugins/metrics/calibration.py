"""Does the model's confidence say how often it is right, clean and under attack?"""

from __future__ import annotations

from typing import ClassVar

import attrs
import xarray as xr

from unmask_plugins.attacks.validation import at_least

__all__ = ["Calibration"]


@attrs.frozen
class Calibration:
    """Calibration of every model on clean images and on every attack's final examples.

    Expected calibration error (Guo, Pleiss, Sun and Weinberger 2017, On calibration of modern neural
    networks, equation 3), Brier score (Brier 1950), negative log-likelihood and mean confidence. All of it is
    computed from what the result holds for every sample, so that it can be recomputed with other bins.

    Attributes:
        bins: Bins of the expected calibration error, of equal width on [0, 1].
    """

    name: ClassVar[str] = "calibration"
    dims: ClassVar[tuple[str, ...]] = ("model", "attack", "epsilon")

    bins: int = attrs.field(default=15, validator=at_least(1))

    def __call__(self, results: xr.Dataset) -> xr.Dataset:
        """The measures over (model, attack, epsilon), and over (model) with the prefix ``clean_``."""
        measured = results.unmask
        found = {}
        for prefix, examples in (("", "final"), ("clean_", "clean")):
            found[f"{prefix}calibration_error"] = measured.calibration_error(self.bins, examples)
            found[f"{prefix}brier_score"] = measured.brier_score(examples)
            found[f"{prefix}negative_log_likelihood"] = measured.negative_log_likelihood(examples)
            found[f"{prefix}mean_confidence"] = measured.mean_confidence(examples)
        return xr.Dataset({name: values.reset_coords(drop=True) for name, values in found.items()})
