"""8-bit validity: does the final example survive being stored as an ordinary image?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from unmask.crashes import reason, tried
from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE, Status
from unmask.evaluation.judge import Judge
from unmask.evaluation.threat import rounding_allowance

if TYPE_CHECKING:
    import xarray as xr

    from unmask.data import LabelledImages
    from unmask.evaluation.subject import CellSettings, Subject
    from unmask.kernels import Kernels

__all__ = ["rounded", "with_quantized"]

LEVELS = 255


def rounded(
    images: Tensor, clean: Tensor, norm: str, epsilon: float, bounds: tuple[float, float], kernels: Kernels
) -> tuple[Tensor, Tensor]:
    """Images on the grid of 256 values that spans the bounds, inside the ball; and whether each one exists.

    Every pixel goes to the nearest value that its own distance to the clean pixel allows (at most epsilon);
    where the whole image is then still outside the ball (l2, l1), to the nearest value towards the clean
    pixel. An image for which that is outside too has no 8-bit version here; its row is the unrounded image.

    Args:
        images: Final examples [sample, channel, height, width].
        clean: The clean images, likewise.
        norm: The run's norm.
        epsilon: The radius.
        bounds: Smallest and largest valid pixel value.
        kernels: For the norms.
    """
    low, high = bounds
    step = (high - low) / LEVELS
    slack = rounding_allowance(bounds, "linf", 1)
    place, centre = (images.double() - low) / step, (clean.double() - low) / step
    radius = (epsilon + slack) / step

    def within(levels: Tensor) -> Tensor:
        levels = torch.where(levels - centre > radius, levels - 1, levels)
        levels = torch.where(centre - levels > radius, levels + 1, levels)
        return levels.clamp(0, LEVELS)

    def stored(levels: Tensor) -> Tensor:
        return (low + levels * step).to(images.dtype)

    allowed = epsilon + rounding_allowance(bounds, norm, clean[0].numel() if len(clean) else 1)
    fits = torch.zeros(len(images), dtype=torch.bool, device=images.device)
    chosen = images.clone()
    # A pixel that lies on the grid already, up to float rounding, is at its own level.
    nearest = place.round()
    settled = torch.where((place - nearest).abs() * step <= slack, nearest, place)
    towards = torch.where(settled >= centre, settled.floor(), settled.ceil())
    for levels in (within(nearest), within(towards)):
        candidate = stored(levels)
        if norm == "l0":
            # Another float of the same level would count as a changed value.
            candidate = torch.where((candidate - clean).abs() <= slack, clean, candidate)
        inside = kernels.norms(candidate.double() - clean.double(), norm) <= allowed
        taken = inside & ~fits
        chosen[taken] = candidate[taken]
        fits |= inside
    return chosen, fits


def with_quantized(
    results: xr.Dataset, subjects: Sequence[Subject], data: LabelledImages, settings: CellSettings
) -> xr.Dataset:
    """The result with `correct_quantized`: correctness at the final example after rounding to 8 bits.

    An example that has no 8-bit version in its ball does not count, and the sample keeps its clean outcome.
    What survives at one radius counts at every larger one. `quantized` says which samples have a version.

    Args:
        results: The result, `adversarial` in it.
        subjects: The models, on their devices.
        data: The samples.
        settings: What all cells of the run share.
    """
    whole = results.transpose(MODEL, ATTACK, EPSILON, SAMPLE, ...)
    shape = whole["correct"].shape
    correct, exists = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    warnings: list[str] = json.loads(results.attrs.get("warnings", "[]"))
    for m, subject in enumerate(subjects):
        try:
            with tried({"quantize": subject.name}):
                _judge(whole.isel({MODEL: m}), subject, data, settings, correct[m], exists[m])
        except Exception as cause:
            # Whatever a model raises here must cost these numbers alone.
            correct[m], exists[m] = np.nan, False
            warnings.append(f"8-bit examples of model '{subject.name}' could not be judged: {reason(cause)}.")
    dims = (MODEL, ATTACK, EPSILON, SAMPLE)
    return results.assign(
        correct_quantized=(
            dims,
            correct,
            {"units": "1", "long_name": "probability that the final example, in 8 bits, is classified right"},
        ),
        quantized=(dims, exists, {"long_name": "the final example has an 8-bit version inside the ball"}),
    ).assign_attrs(quantize="8bit", warnings=json.dumps(warnings))


def _judge(
    here: xr.Dataset,
    subject: Subject,
    data: LabelledImages,
    settings: CellSettings,
    correct: np.ndarray[Any, Any],
    exists: np.ndarray[Any, Any],
) -> None:
    """Fill in one model's numbers, both [attack, epsilon, sample]."""
    facts = subject.oracle.facts
    clean = data.images.to(device=facts.device, dtype=facts.dtype)
    judge = Judge(
        subject.oracle, data.ids.to(facts.device), data.labels.to(facts.device),
        settings.seed, settings.draws, settings.kernels, protocol=settings.protocol,
    )  # fmt: skip
    ceiling = here["clean_correct"].values
    for a in range(len(correct)):
        best, chosen = ceiling.copy(), here["clean_screening"].values.copy()
        for e in np.argsort(here[EPSILON].values, kind="stable"):
            done = ~np.isin(here["status"].values[a, e], (Status.FAILED, Status.NOT_RUN))
            moved = done & (ceiling > 0)
            rows = torch.as_tensor(np.flatnonzero(moved), device=facts.device)
            if len(rows):
                kept = np.ascontiguousarray(here["adversarial"].values[a, e][moved])
                images = torch.as_tensor(kept, device=facts.device, dtype=facts.dtype)
                epsilon = float(here[EPSILON].values[e])
                coarse, fits = rounded(
                    images, clean[rows], settings.norm, epsilon, settings.bounds, settings.kernels
                )
                at = rows[fits]
                exists[a, e, at.cpu().numpy()] = True
                screening = judge.score(coarse[fits], at, "screening")
                report = judge.score(coarse[fits], at, "report") if judge.separate else screening
                where, lower = at.cpu().numpy(), screening.correct.cpu().numpy()
                worse = lower < chosen[where]
                chosen[where[worse]] = lower[worse]
                best[where[worse]] = report.correct.cpu().numpy()[worse]
            correct[a, e] = np.where(done, np.minimum(best, ceiling), np.nan)
