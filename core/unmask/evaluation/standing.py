"""The best candidate of every sample of a cell, as examples come in and are judged."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from unmask.dimensions import Status
from unmask.evaluation.judge import Judge, Judgement
from unmask.evaluation.ledger import Ledger
from unmask.evaluation.subject import Batch
from unmask.evaluation.threat import Ball
from unmask.results.outcome import CleanOutcome

__all__ = ["Standing", "checked", "offer", "standing_clean"]


@attrs.define(eq=False)
class Standing:
    """The best candidate of every sample so far."""

    images: Tensor
    report: Judgement
    screening: Judgement

    def offer(self, rows: Tensor, images: Tensor, report: Judgement, screening: Judgement) -> None:
        """Take these candidates where they are nearer to the attacker's aim than what stands."""
        mine = self.screening.select(rows)
        less = screening.missed < mine.missed
        tied = screening.missed == mine.missed
        better = less | (tied & (screening.gap < mine.gap))
        chosen = better.nonzero().squeeze(1)
        taken = rows[chosen]
        self.images[taken] = images[chosen]
        self.report = self.report.replaced(taken, report.select(chosen))
        self.screening = self.screening.replaced(taken, screening.select(chosen))


def standing_clean(judge: Judge, batch: Batch, clean: CleanOutcome) -> Standing:
    """Every sample stands with its clean image, as it was judged."""
    device = batch.images.device
    if judge.targets is not None:
        rows = torch.arange(len(batch), device=device)
        report = judge.score(batch.images, rows)
        screening = judge.score(batch.images, rows, "screening") if judge.separate else report
        return Standing(batch.images.clone(), report, screening)
    report = Judgement(
        correct=torch.as_tensor(clean.correct, device=device),
        prediction=torch.as_tensor(clean.prediction, device=device),
        confidence=torch.as_tensor(clean.confidence, device=device),
        margin=torch.as_tensor(clean.margin, device=device),
        finite=torch.isfinite(torch.as_tensor(clean.margin, device=device)),
        missed=torch.as_tensor(clean.correct, device=device),
        gap=torch.as_tensor(clean.margin, device=device),
        label_probability=torch.as_tensor(clean.label_probability, device=device),
        squared_probability=torch.as_tensor(clean.squared_probability, device=device),
    )
    estimate = torch.as_tensor(clean.screening, device=device)
    screening = attrs.evolve(report, correct=estimate, missed=estimate)
    return Standing(batch.images.clone(), report, screening)


def checked(returned: Tensor, ledger: Ledger) -> tuple[Tensor, Tensor]:
    """Which returned examples may count, and the status of those that may not."""
    rows = torch.arange(len(returned), device=returned.device)
    valid = ledger.valid(returned, rows)
    finite = torch.isfinite(returned).flatten(1).all(1)
    low, high = ledger.ball.bounds
    flat = returned.flatten(1)
    boxed = ledger.valid(returned.clamp(low, high), rows) & finite & ((flat < low) | (flat > high)).any(1)
    why = torch.full((len(returned),), int(Status.BUDGET_VIOLATION), dtype=torch.int8, device=returned.device)
    why[boxed] = int(Status.BOX_VIOLATION)
    why[~finite] = int(Status.NON_FINITE)
    why[valid] = int(Status.OK)
    return valid, why


def offer(
    standing: Standing,
    judge: Judge,
    ball: Ball,
    batch: Batch,
    rows: Tensor,
    images: Tensor,
    deterministic: bool,
    nearest: bool,
) -> None:
    """Judge valid examples, moved exactly into ball and box, and keep those that are worse for the model."""
    if len(rows) == 0:
        return
    exact = ball.project(images, around=batch.images[rows])
    if deterministic:
        # What stands was judged already, and would be judged the same.
        new = (exact != standing.images[rows]).flatten(1).any(1)
        rows, exact = rows[new], exact[new]
        if len(rows) == 0:
            return
    screening = judge.score(exact, rows, "screening")
    if deterministic and nearest:
        # Among adversarial examples a nearest search wants the closest.
        size = ball.distance(exact, batch.images[rows])
        held = ball.distance(standing.images[rows], batch.images[rows])
        fooled = standing.report.select(rows).missed == 0
        closer = (screening.missed == 0) & (~fooled | (size < held))
        chosen = closer.nonzero().squeeze(1)
        taken = rows[chosen]
        standing.images[taken] = exact[chosen]
        standing.report = standing.report.replaced(taken, screening.select(chosen))
        standing.screening = standing.screening.replaced(taken, screening.select(chosen))
        return
    report = judge.score(exact, rows, "report") if judge.separate else screening
    standing.offer(rows, exact, report, screening)
