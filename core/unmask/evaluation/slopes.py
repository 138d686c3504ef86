"""Does the gradient say how the answer changes? Measured by a step of the size that attacks take.

At every clean image the margin m (logit of the label minus the largest other) has the gradient g. Along the
direction d in which g falls or climbs fastest, a step h should change m by about h g d. `slope_predicted`
is g d; `slope_measured` is the larger of |m(x + h d) - m(x)| / h and |m(x - h d) - m(x)| / h. A margin does
not saturate as the softmax of a confident model does, so for a gradient of any use the two are of one order.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unmask.crashes import reason, tried
from unmask.dimensions import EPSILON, MODEL, SAMPLE
from unmask.evaluation.diagnosing import DIAGNOSED
from unmask.evaluation.random import SampleRandom

if TYPE_CHECKING:
    import xarray as xr

    from unmask.data import LabelledImages
    from unmask.evaluation.subject import CellSettings, Subject

__all__ = ["with_slopes"]


def with_slopes(
    results: xr.Dataset, subjects: Sequence[Subject], data: LabelledImages, settings: CellSettings
) -> xr.Dataset:
    """The result with `slope_predicted` and `slope_measured` of every model, on the first samples.

    The step is a quarter of the smallest radius above zero; without one nothing is measured. What it cost is
    told in the attribute `diagnosis`, beside the number of samples.

    Args:
        results: The result.
        subjects: The models, on their devices.
        data: The samples.
        settings: What all cells of the run share.
    """
    radii = [float(e) for e in results[EPSILON].values if e > 0]
    count = min(DIAGNOSED, len(data))
    shape = (len(subjects), len(data))
    predicted, measured = np.full(shape, np.nan), np.full(shape, np.nan)
    started, forwards, backwards = time.perf_counter(), 0, 0
    warnings: list[str] = json.loads(results.attrs.get("warnings", "[]"))
    for i, subject in enumerate(subjects if radii else ()):
        first = data.select(torch.arange(count))
        try:
            with tried({"slopes": subject.name}):
                parts = [
                    _slopes(subject, first.select(rows), settings, min(radii) / 4)
                    for rows in torch.arange(count).split(subject.batch.rows)
                ]
        except Exception as cause:
            # Whatever a model raises here must cost these two numbers alone.
            warnings.append(f"slopes of model '{subject.name}' could not be measured: {reason(cause)}.")
            continue
        predicted[i, :count], measured[i, :count] = (
            torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True)
        )
        members = len(subject.oracle.members)
        forwards, backwards = forwards + 3 * members * count, backwards + members * count
    record = {
        "samples": count,
        "slopes": {
            "forwards": forwards,
            "backwards": backwards,
            "seconds": time.perf_counter() - started,
        },
    }
    described = {"units": "1 / pixel value"}
    return results.assign(
        slope_predicted=(
            (MODEL, SAMPLE),
            predicted,
            {**described, "long_name": "slope of the margin along its gradient, by the gradient"},
        ),
        slope_measured=(
            (MODEL, SAMPLE),
            measured,
            {**described, "long_name": "the same by a step of a quarter of the smallest radius"},
        ),
    ).assign_attrs(diagnosis=json.dumps(record), warnings=json.dumps(warnings))


def _slopes(
    subject: Subject, data: LabelledImages, settings: CellSettings, h: float
) -> tuple[Tensor, Tensor]:
    """Predicted and measured slope of every sample's margin, float64 [sample]."""
    facts = subject.oracle.facts
    images = data.images.to(device=facts.device, dtype=facts.dtype)
    labels = data.labels.to(facts.device)
    random = SampleRandom.for_samples(
        data.ids.tolist(), "slopes", settings.seed, subject.name,
        kernels=settings.kernels, dtype=facts.dtype, device=facts.device,
    )  # fmt: skip
    rivals: list[Tensor] = []
    # One draw of a model that answers at random, the same at all three points.
    seeds = [random.integers(0, 2**31) if m.stochastic else None for m in subject.oracle.members]

    def margin(points: Tensor) -> Tensor:
        total = torch.zeros(len(points), dtype=torch.float64, device=facts.device)
        for k, member in enumerate(subject.oracle.members):
            logits = subject.oracle.answer(member, points, seeds[k]).double()
            if len(rivals) <= k:
                others = logits.detach().scatter(1, labels[:, None], -torch.inf)
                rivals.append(others.argmax(1))
            ahead = logits.gather(1, labels[:, None]) - logits.gather(1, rivals[k][:, None])
            total = total + member.probability * ahead.squeeze(1)
        return total

    with torch.enable_grad():
        x = images.detach().requires_grad_()
        here = margin(x)
        if here.requires_grad:
            (gradient,) = torch.autograd.grad(here.sum(), x)
        else:
            gradient = torch.zeros_like(images)
    gradient = torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
    direction = settings.kernels.steepest(gradient, settings.norm).to(images.dtype)
    here = here.detach()
    predicted = (gradient.double() * direction.double()).flatten(1).sum(1).abs()
    with torch.no_grad():
        changes = torch.stack([(margin(images + sign * h * direction) - here).abs() for sign in (1, -1)])
    return predicted, changes.amax(0) / h
