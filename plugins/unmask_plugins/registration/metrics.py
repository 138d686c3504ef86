"""The built-in metrics, offered through the same hook as anybody's."""

from __future__ import annotations

from collections.abc import Iterable

from unmask.entries import MetricEntry
from unmask.markers import hookimpl

__all__ = ["unmask_metrics"]


@hookimpl
def unmask_metrics() -> Iterable[MetricEntry]:
    """Measurements beyond the core ones."""
    return [
        MetricEntry(
            name="calibration",
            summary="Calibration error, Brier score, log-likelihood and confidence, clean and under attack.",
            reference="Guo et al. 2017, On calibration of modern neural networks, arXiv:1706.04599; Brier "
            "1950, Verification of forecasts expressed in terms of probability",
            build="unmask_plugins.metrics.calibration:Calibration",
            dims=("model", "attack", "epsilon"),
        ),
        MetricEntry(
            name="certified-radius",
            summary="Certified l2 radius of every sample under Gaussian noise (randomized smoothing), "
            "checked against the adversarial examples found.",
            reference="Cohen, Rosenfeld and Kolter 2019, Certified adversarial robustness via randomized "
            "smoothing, arXiv:1902.02918",
            build="unmask_plugins.metrics.certified_radius:CertifiedRadius",
            unit="pixel value",
            dims=("model", "sample"),
        ),
    ]
