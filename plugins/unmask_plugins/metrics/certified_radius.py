"""Certificates by randomized smoothing."""

from __future__ import annotations

import math
from typing import ClassVar

import attrs
import numpy as np
import torch
import xarray as xr
from torch import Tensor

from unmask import statistics
from unmask.evaluation.random import SampleRandom
from unmask.measurement import Measured
from unmask_plugins.attacks.validation import at_least

__all__ = ["CertifiedRadius"]

ABSTAIN = -1


def _positive(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{attribute.name} must be positive, not {value}")


def _share(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{attribute.name} must lie between 0 and 1, not {value}")


@attrs.frozen
class CertifiedRadius:
    """CERTIFY of Cohen, Rosenfeld and Kolter 2019, Certified adversarial robustness via randomized smoothing.

    The smoothed classifier g answers with the class that the model f gives most often to the image with
    Gaussian noise. With probability 1 - alpha, g keeps its answer within the radius in l2. The certificate is
    about g, not about f alone. The noise is not cut to the bounds, as in the paper.

    Where an attack turned f wrong within the radius, g itself is asked at that example (PREDICT, section
    3.2.1): if it answers with another class beyond chance, certificate and example contradict each other.

    Attributes:
        sigma: Standard deviation of the noise, in units of a pixel value.
        n: Noisy copies that the radius rests on.
        n0: Noisy copies that choose the class.
        alpha: Probability that a certificate is wrong.
    """

    name: ClassVar[str] = "certified-radius"
    dims: ClassVar[tuple[str, ...]] = ("model", "sample")
    needs_examples: ClassVar[bool] = True
    BATCH: ClassVar[int] = 256

    sigma: float = attrs.field(default=0.25, validator=_positive)
    n: int = attrs.field(default=1000, validator=at_least(1))
    n0: int = attrs.field(default=100, validator=at_least(1))
    alpha: float = attrs.field(default=0.001, validator=_share)

    def __call__(self, measured: Measured) -> xr.Dataset:
        """Radius and class of every sample, and what became of the adversarial examples within it."""
        count = len(measured.images)
        streams = measured.random("certify")
        radius = np.full(count, np.nan)
        predicted = np.full(count, ABSTAIN)
        votes = np.zeros(count, dtype=np.int64)
        for i in range(count):
            stream = streams.select(torch.tensor([i], device=measured.images.device))
            guess = int(self._votes(measured, measured.images[i], stream, self.n0).argmax())
            votes[i] = int(self._votes(measured, measured.images[i], stream, self.n)[guess])
            radius[i] = statistics.certified_radius(int(votes[i]), self.n, self.alpha, self.sigma)
            if np.isfinite(radius[i]):
                predicted[i] = guess
        checked, contradicted = self._cross_check(measured, radius, predicted)
        settings = attrs.asdict(self)
        found = xr.Dataset(
            {
                "certified_radius": (
                    "sample",
                    radius,
                    {"units": "pixel value", "long_name": "certified l2 radius; NaN: abstained", **settings},
                ),
                "certified_prediction": (
                    "sample",
                    predicted,
                    {"long_name": "class of the smoothed classifier; -1: abstained"},
                ),
                "certified_votes": (
                    "sample",
                    votes,
                    {"units": "1", "long_name": f"votes of {self.n} for that class"},
                ),
                "certificate_checked": (
                    "sample",
                    checked,
                    {"long_name": "an adversarial example lies within the certified radius"},
                ),
                "certificate_contradicted": (
                    "sample",
                    contradicted,
                    {"long_name": "the smoothed classifier answers with another class at that example"},
                ),
            }
        )
        if contradicted.any():
            ids = measured.results["sample"].values[contradicted]
            found.attrs["warnings"] = [
                f"model '{measured.name}': {int(contradicted.sum())} of {int(checked.sum())} adversarial "
                "examples inside a certified radius turn the smoothed classifier too, which contradicts "
                f"the certificate (samples {', '.join(map(str, ids[:10]))}). The model is not what was "
                "certified, or draws its noise in another way."
            ]
        return found

    def _votes(self, measured: Measured, image: Tensor, stream: SampleRandom, count: int) -> Tensor:
        """How often the model gives each class to the image plus noise, int64 [class]."""
        total: Tensor | None = None
        for start in range(0, count, self.BATCH):
            size = min(self.BATCH, count - start)
            noise = stream.normal((size, *image.shape))[0]
            draws = stream.select(torch.zeros(size, dtype=torch.int64, device=image.device))
            logits = measured.logits(image + self.sigma * noise, draws)
            found = torch.bincount(logits.argmax(1), minlength=logits.shape[1])
            total = found if total is None else total + found
        assert total is not None
        return total

    def _cross_check(
        self,
        measured: Measured,
        radius: np.ndarray,
        predicted: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Samples with an adversarial example within their radius, and those where it turns g as well."""
        results = measured.results.transpose("attack", "epsilon", "sample", ...)
        checked, contradicted = np.zeros(len(radius), dtype=bool), np.zeros(len(radius), dtype=bool)
        if "adversarial" not in results:
            return checked, contradicted
        right = predicted == results["label"].values
        lowest, shown = np.full(len(radius), np.inf), measured.images.clone()
        for a in range(results.sizes["attack"]):
            for e in range(results.sizes["epsilon"]):
                example = measured.example(a, e)
                size = (example.double() - measured.images.double()).flatten(1).norm(dim=1).cpu().numpy()
                margin = results["margin"].values[a, e]
                with np.errstate(invalid="ignore"):
                    fooled = right & (results["correct"].values[a, e] < 0.5) & (size > 0) & (size <= radius)
                    better = fooled & (margin < lowest)
                rows = torch.as_tensor(np.flatnonzero(better), device=example.device)
                shown[rows] = example[rows]
                lowest[better] = margin[better]
                checked |= fooled
        streams = measured.random("cross-check")
        for i in np.flatnonzero(checked):
            stream = streams.select(torch.tensor([int(i)], device=measured.images.device))
            votes = self._votes(measured, shown[i], stream, self.n)
            other = int(votes.argmax())
            if other != predicted[i]:
                own, theirs = int(votes[predicted[i]]), int(votes[other])
                contradicted[i] = _binomial(theirs, theirs + own) <= self.alpha
        return checked, contradicted


def _binomial(successes: int, n: int) -> float:
    """Two-sided p-value of a fair coin, as PREDICT tests it."""
    from scipy.stats import binomtest

    return float(binomtest(successes, n, 0.5).pvalue)
