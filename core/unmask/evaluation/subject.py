"""What a cell works on: a model ready to be asked, some samples, and what all cells share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import torch
from torch import Tensor

from unmask.evaluation.batching import BatchSize
from unmask.evaluation.judge import Judge, Protocol
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.preparation.preparing import Prepared
from unmask.results.outcome import CleanOutcome

if TYPE_CHECKING:
    from unmask.kernels import Kernels

__all__ = ["Batch", "CellSettings", "Subject", "judge_clean", "judge_for"]


@attrs.frozen(eq=False)
class Batch:
    """Some samples that are attacked together, on the model's device.

    Attributes:
        images: [sample, channel, height, width].
        labels: int64 [sample].
        ids: int64 [sample].
    """

    images: Tensor
    labels: Tensor
    ids: Tensor

    def __len__(self) -> int:
        return len(self.images)


@attrs.frozen(eq=False)
class Subject:
    """A model of the run, ready to be asked.

    Attributes:
        name: Its name in the run.
        oracle: How it is asked.
        others: All models that an attack may transfer from, by name; those given as modules among them.
        run: The names of the run's models.
        prepared: How it is searched, where not by `oracle`, whose answers are the verdict.
        batch: How many samples are attacked together.
    """

    name: str
    oracle: Oracle
    others: Mapping[str, Oracle] = attrs.field(factory=dict)
    run: Sequence[str] = ()
    prepared: Prepared | None = None
    batch: BatchSize = attrs.field(factory=lambda: BatchSize(256))

    def searched_by(self, nearest: bool) -> list[Oracle]:
        """What a search asks; then, in half precision, what near misses are searched again by.

        A nearest search has no near misses: its distances are the result, so it is made in float32 at once.
        """
        if self.prepared is None:
            return [self.oracle]
        search, again = self.prepared.search, self.prepared.again
        if nearest:
            return [self.prepared.single]
        return [search] if search is again else [search, again]


@attrs.frozen
class CellSettings:
    """What all cells of a run share.

    Attributes:
        norm: The norm of the threat model.
        bounds: Smallest and largest valid pixel value.
        seed: The run's seed.
        draws: Draws that stand for an expectation where it cannot be enumerated.
        max_queries: Forwards per sample and cell; an attack's own limit goes first.
        timeout: Seconds per cell; an attack's own limit goes first.
        kernels: Tensor kernels.
        keep_examples: Keep the final examples.
        targets: For every targeted attack the class to be reached, by sample id.
        protocol: How randomised models are scored: ``expected`` or ``single-draw``.
    """

    norm: Any
    bounds: tuple[float, float]
    seed: int
    draws: int
    max_queries: int | None
    timeout: float | None
    kernels: Kernels = attrs.field(repr=False, eq=False)
    keep_examples: bool = False
    targets: Mapping[str, Mapping[int, int]] = attrs.field(factory=dict)
    protocol: Protocol = "expected"

    def targets_of(self, attack: str, batch: Batch) -> Tensor | None:
        """The classes that an attack is to reach, int64 [sample]; None where it is not targeted."""
        if attack not in self.targets:
            return None
        chosen = [self.targets[attack][identity] for identity in batch.ids.tolist()]
        return torch.tensor(chosen, dtype=torch.int64, device=batch.labels.device)


def judge_for(subject: Subject, batch: Batch, settings: CellSettings, targets: Tensor | None = None) -> Judge:
    """The judge of these samples of a model."""
    return Judge(
        subject.oracle,
        batch.ids,
        batch.labels,
        settings.seed,
        settings.draws,
        settings.kernels,
        targets,
        settings.protocol,
    )


def judge_clean(subject: Subject, batch: Batch, settings: CellSettings) -> CleanOutcome:
    """What the model makes of the clean images."""
    judge = judge_for(subject, batch, settings)
    rows = torch.arange(len(batch), device=batch.images.device)
    report = judge.score(batch.images, rows)
    screening = judge.score(batch.images, rows, "screening") if judge.separate else report
    return CleanOutcome(
        correct=report.correct.cpu().numpy(),
        screening=screening.correct.cpu().numpy(),
        prediction=report.prediction.cpu().numpy(),
        confidence=report.confidence.cpu().numpy(),
        margin=report.margin.cpu().numpy(),
        label_probability=report.label_probability.cpu().numpy(),
        squared_probability=report.squared_probability.cpu().numpy(),
    )
