"""One cell: one attack on one model at one radius, for some samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import torch
from torch import Tensor

from unmask.dimensions import Status
from unmask.evaluation.cascade import cascaded
from unmask.evaluation.judge import Judge, Judgement
from unmask.evaluation.ledger import Ledger
from unmask.evaluation.loop import run_attack
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.random import SampleRandom
from unmask.evaluation.target import Target
from unmask.evaluation.task import Task
from unmask.evaluation.threat import Ball
from unmask.results.outcome import CellOutcome, CleanOutcome

if TYPE_CHECKING:
    from unmask.components import ConfiguredAttack
    from unmask.kernels import Kernels

__all__ = ["Batch", "CellSettings", "Subject", "attack_cell", "judge_clean"]


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
        others: The other models of the run by name, for attacks that transfer.
    """

    name: str
    oracle: Oracle
    others: Mapping[str, Oracle] = attrs.field(factory=dict)


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
    """

    norm: Any
    bounds: tuple[float, float]
    seed: int
    draws: int
    max_queries: int | None
    timeout: float | None
    kernels: Kernels = attrs.field(repr=False, eq=False)
    keep_examples: bool = False


def _judge(subject: Subject, batch: Batch, settings: CellSettings) -> Judge:
    return Judge(subject.oracle, batch.ids, batch.labels, settings.seed, settings.draws, settings.kernels)


def judge_clean(subject: Subject, batch: Batch, settings: CellSettings) -> CleanOutcome:
    """What the model makes of the clean images."""
    judge = _judge(subject, batch, settings)
    rows = torch.arange(len(batch), device=batch.images.device)
    report = judge.score(batch.images, rows)
    screening = report
    if subject.oracle.facts.randomness == "drawn":
        screening = judge.score(batch.images, rows, "screening")
    return CleanOutcome(
        correct=report.correct.cpu().numpy(),
        screening=screening.correct.cpu().numpy(),
        prediction=report.prediction.cpu().numpy(),
        confidence=report.confidence.cpu().numpy(),
        margin=report.margin.cpu().numpy(),
    )


@attrs.define(eq=False)
class _Standing:
    """The best candidate of every sample so far."""

    images: Tensor
    report: Judgement
    screening: Judgement

    def offer(self, rows: Tensor, images: Tensor, report: Judgement, screening: Judgement) -> None:
        """Take these candidates where they are worse for the model than what stands."""
        mine = self.screening.select(rows)
        less = screening.correct < mine.correct
        tied = screening.correct == mine.correct
        better = less | (tied & (screening.margin < mine.margin))
        chosen = better.nonzero().squeeze(1)
        taken = rows[chosen]
        self.images[taken] = images[chosen]
        self.report = self.report.replaced(taken, report.select(chosen))
        self.screening = self.screening.replaced(taken, screening.select(chosen))


def _streams(
    settings: CellSettings, subject: Subject, attack: str, epsilon: float, batch: Batch
) -> Callable[..., SampleRandom]:
    ids = batch.ids.tolist()

    def stream(*purpose: object) -> SampleRandom:
        return SampleRandom.for_samples(
            ids,
            settings.seed,
            subject.name,
            attack,
            epsilon,
            *purpose,
            kernels=settings.kernels,
            dtype=batch.images.dtype,
            device=batch.images.device,
        )

    return stream


def _other_doors(
    subject: Subject, batch: Batch, ball: Ball, deadline: float | None, stream: Callable[..., SampleRandom]
) -> dict[str, Callable[[Tensor], Target]]:
    """Doors to the other models of the run, opened when an attack first asks for one."""
    ledgers: dict[str, Ledger] = {}

    def opened(name: str) -> Callable[[Tensor], Target]:
        def door(rows: Tensor) -> Target:
            if name not in ledgers:
                oracle = subject.others[name]
                ledgers[name] = Ledger(
                    oracle=oracle,
                    clean=batch.images.to(oracle.facts.device, oracle.facts.dtype),
                    labels=batch.labels.to(oracle.facts.device),
                    ball=ball,
                    random=stream("source", name),
                    early_exit=False,
                    deadline=deadline,
                )
            return Target(ledgers[name], rows.to(subject.others[name].facts.device))

        return door

    return {name: opened(name) for name in subject.others}


def attack_cell(
    name: str,
    configured: ConfiguredAttack,
    subject: Subject,
    batch: Batch,
    clean: CleanOutcome,
    epsilon: float,
    settings: CellSettings,
    *,
    carried: CellOutcome | None = None,
    on_step: Callable[[int, int, int], None] = lambda done, total, standing: None,
) -> CellOutcome:
    """Run an attack and judge what it found.

    Args:
        name: The attack's name in the run.
        configured: The attack.
        subject: The model.
        batch: The samples.
        clean: What the model makes of their clean images.
        epsilon: The radius; inf for a nearest search.
        settings: What all cells share.
        carried: The outcome at the next smaller radius: what was found there counts here as well.
        on_step: Told the progress of an iterative attack.

    Raises:
        Exception: Whatever the attack raises.
    """
    started = time.perf_counter()
    nearest = configured.entry.search == "nearest"
    device = batch.images.device
    deterministic = subject.oracle.facts.randomness == "deterministic"
    clean_correct = torch.as_tensor(clean.correct, device=device)
    alive = clean_correct > 0
    if carried is not None:
        alive &= torch.as_tensor(carried.correct, device=device) > 0
    rows = alive.nonzero().squeeze(1)
    judge = _judge(subject, batch, settings)
    standing = _start(judge, batch, clean, deterministic)
    outcome_counts = _Counts.none(len(batch), device)
    violations = torch.full((len(batch),), int(Status.OK), dtype=torch.int8, device=device)
    if len(rows) and epsilon > 0:
        limit = configured.timeout if configured.timeout is not None else settings.timeout
        deadline = None if limit is None else time.monotonic() + limit
        queries = configured.max_queries if configured.max_queries is not None else settings.max_queries
        part = Batch(batch.images[rows], batch.labels[rows], batch.ids[rows])
        stream = _streams(settings, subject, name, epsilon, part)
        ball = Ball(settings.norm, epsilon, settings.bounds, settings.kernels)
        ledger = Ledger(
            oracle=subject.oracle,
            clean=part.images,
            labels=part.labels,
            ball=ball,
            random=stream("model"),
            nearest=nearest,
            max_queries=queries,
            deadline=deadline,
        )
        target = Target(ledger, others=_other_doors(subject, part, ball, deadline, stream))
        task = Task(target, part.images, part.labels, ball, stream("attack"))
        for returned in run_attack(configured.attack, task, on_step):
            valid, why = _checked(returned, ledger)
            # The first violation of a sample is the one that is told.
            violations[rows] = torch.where(violations[rows] == int(Status.OK), why, violations[rows])
            _offer(standing, judge, ball, batch, rows[valid], returned[valid], deterministic, nearest)
        if deterministic:
            seen = torch.isfinite(ledger.best_score) | ledger.broken
            _offer(standing, judge, ball, batch, rows[seen], ledger.best[seen], deterministic, nearest)
            # The door saw it fall, the judge does not: moving it by a rounding error turned the outcome.
            turned = ledger.broken & (standing.report.correct[rows] > 0)
            violations[rows[turned]] = int(Status.BORDERLINE)
        outcome_counts.fill(rows, ledger)
    return _outcome(
        standing,
        clean,
        batch,
        settings,
        outcome_counts,
        violations,
        carried,
        nearest,
        time.perf_counter() - started,
    )


def _start(judge: Judge, batch: Batch, clean: CleanOutcome, deterministic: bool) -> _Standing:
    """Every sample stands with its clean image, as it was judged."""
    device = batch.images.device
    report = Judgement(
        correct=torch.as_tensor(clean.correct, device=device),
        prediction=torch.as_tensor(clean.prediction, device=device),
        confidence=torch.as_tensor(clean.confidence, device=device),
        margin=torch.as_tensor(clean.margin, device=device),
        finite=torch.isfinite(torch.as_tensor(clean.margin, device=device)),
    )
    screening = attrs.evolve(report, correct=torch.as_tensor(clean.screening, device=device))
    return _Standing(batch.images.clone(), report, screening)


def _checked(returned: Tensor, ledger: Ledger) -> tuple[Tensor, Tensor]:
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


def _offer(
    standing: _Standing,
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
    screening = judge.score(exact, rows, "screening")
    if deterministic and nearest:
        # Among adversarial examples a nearest search wants the closest.
        size = ball.distance(exact, batch.images[rows])
        held = ball.distance(standing.images[rows], batch.images[rows])
        fooled = standing.report.select(rows).correct == 0
        closer = (screening.correct == 0) & (~fooled | (size < held))
        chosen = closer.nonzero().squeeze(1)
        taken = rows[chosen]
        standing.images[taken] = exact[chosen]
        standing.report = standing.report.replaced(taken, screening.select(chosen))
        standing.screening = standing.screening.replaced(taken, screening.select(chosen))
        return
    report = screening
    if judge.oracle.facts.randomness == "drawn":
        report = judge.score(exact, rows, "report")
    standing.offer(rows, exact, report, screening)


@attrs.define(eq=False)
class _Counts:
    """What the door counted, for all samples of the cell."""

    forwards: Tensor
    backwards: Tensor
    zero: Tensor
    nonfinite: Tensor
    norm: Tensor

    @classmethod
    def none(cls, count: int, device: torch.device) -> _Counts:
        whole = torch.zeros(count, dtype=torch.int64, device=device)
        share = torch.full((count,), torch.nan, dtype=torch.float64, device=device)
        return cls(whole, whole.clone(), share, share.clone(), share.clone())

    def fill(self, rows: Tensor, ledger: Ledger) -> None:
        self.forwards[rows] = ledger.forwards
        self.backwards[rows] = ledger.backwards
        # 0 / 0 is NaN: no backward pass, no share.
        self.zero[rows] = ledger.zero_gradients.double() / ledger.backwards
        self.nonfinite[rows] = ledger.nonfinite_gradients.double() / ledger.backwards
        self.norm[rows] = ledger.gradient_norms / ledger.backwards


def _outcome(
    standing: _Standing,
    clean: CleanOutcome,
    batch: Batch,
    settings: CellSettings,
    counts: _Counts,
    violations: Tensor,
    carried: CellOutcome | None,
    nearest: bool,
    seconds: float,
) -> CellOutcome:
    report = standing.report
    clean_correct = torch.as_tensor(clean.correct, device=report.correct.device)
    distance = settings.kernels.norms(standing.images.double() - batch.images.double(), settings.norm)
    if nearest:
        distance = torch.where((report.correct > 0) & (clean_correct > 0), torch.inf, distance)
    # The draws of the two estimates differ; an attack never raises a sample's accuracy above clean.
    correct = torch.minimum(report.correct, clean_correct)
    status = violations.clone()
    quiet = status == int(Status.OK)
    blind = quiet & (counts.zero == 1) & (correct >= clean_correct)
    status[blind] = int(Status.ZERO_GRADIENT)
    status[quiet & ~report.finite] = int(Status.NON_FINITE)
    status[clean_correct == 0] = int(Status.CLEAN_ERROR)
    found = CellOutcome(
        correct=correct.cpu().numpy(),
        screening=standing.screening.correct.cpu().numpy(),
        prediction=report.prediction.cpu().numpy(),
        confidence=report.confidence.cpu().numpy(),
        margin=report.margin.cpu().numpy(),
        distance=distance.cpu().numpy(),
        forwards=counts.forwards.cpu().numpy(),
        backwards=counts.backwards.cpu().numpy(),
        status=status.cpu().numpy(),
        gradient_zero=counts.zero.cpu().numpy(),
        gradient_nonfinite=counts.nonfinite.cpu().numpy(),
        gradient_norm=counts.norm.cpu().numpy(),
        adversarial=standing.images.float().cpu().numpy() if settings.keep_examples else None,
        seconds=seconds,
        message="",
    )
    return found if carried is None else cascaded(found, carried)
