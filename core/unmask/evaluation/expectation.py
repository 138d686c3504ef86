"""A clean accuracy that a model must have: the surest sign of wrong weights or a wrong normalisation."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import torch
from torch import nn

from unmask.crashes import surviving
from unmask.data import LabelledImages
from unmask.errors import UserError
from unmask.evaluation.inputs import check_samples
from unmask.evaluation.inspection import inspect_model
from unmask.evaluation.judge import Judge
from unmask.evaluation.oracle import Oracle
from unmask.models.guest import guests
from unmask.plugins.catalog import catalog
from unmask.statistics import clopper_pearson

__all__ = ["DRAWS", "Expectation", "check_expectations"]

LEVEL = 0.99
"""Of the interval that must hold the expected accuracy."""

DRAWS = 16
"""Draws per sample for a model whose randomness cannot be enumerated."""


@attrs.frozen(eq=False)
class Expectation:
    """What is expected of a model.

    Attributes:
        name: What messages call the model.
        where: The key path of the expectation.
        module: The model.
        accuracy: Its clean accuracy, a fraction.
    """

    name: str
    where: str
    module: nn.Module
    accuracy: float


def check_expectations(
    expectations: Iterable[Expectation],
    data: LabelledImages,
    *,
    seed: int = 0,
    batch_size: int | None = None,
    draws: int = DRAWS,
) -> None:
    """Measure the clean accuracy of models of which one is expected.

    Args:
        expectations: The models.
        data: The samples of the run.
        seed: Seed of the draws.
        batch_size: Samples of one model call.
        draws: Draws per sample for a model whose randomness cannot be enumerated.

    Raises:
        UserError: An expected accuracy lies outside the 99 % Clopper-Pearson interval of the measured one.
    """
    for expectation in expectations:
        with surviving(
            f"the clean accuracy of {expectation.name} was measured", expectation.where, theirs=True
        ):
            right, count = _clean_accuracy(expectation, data, seed, batch_size, draws)
        lower, upper = clopper_pearson(right, count, LEVEL)
        if not lower <= expectation.accuracy <= upper:
            raise UserError(
                f"{expectation.name} is expected to have a clean accuracy of "
                f"{expectation.accuracy:.4g}, but has {right / count:.4g} on these {count} samples "
                f"(99 % interval {lower:.3f} to {upper:.3f}). Check its weights, its normalisation "
                "(`mean`, `std`), the order of the classes and the data; or correct the expectation.",
                where=expectation.where,
            )


def _clean_accuracy(
    expectation: Expectation, data: LabelledImages, seed: int, batch_size: int | None, draws: int
) -> tuple[float, int]:
    """Expected number of samples that are right, and how many there are."""
    samples = check_samples(data.images, data.labels, data.bounds, data.ids)
    facts = inspect_model(expectation.module, samples.images, samples.labels, name=expectation.name)
    right = 0.0
    with guests([expectation.module]):
        for rows in torch.arange(len(samples)).split(batch_size or 256):
            part = samples.select(rows)
            labels = part.labels.to(facts.device)
            judge = Judge(
                Oracle(facts, batch_size or 256),
                part.ids.to(facts.device),
                labels,
                seed,
                draws,
                catalog().kernels(),
            )
            images = part.images.to(device=facts.device, dtype=facts.dtype)
            judged = judge.score(images, torch.arange(len(part), device=facts.device))
            right += float(judged.correct.sum())
    return right, len(samples)
