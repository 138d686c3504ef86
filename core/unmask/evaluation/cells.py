"""One cell: one attack on one model at one radius, for some samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.dimensions import Status
from unmask.evaluation.borderline import hangs_on_rounding
from unmask.evaluation.cascade import cascaded, still_missed
from unmask.evaluation.ledger import Ledger
from unmask.evaluation.loop import run_attack
from unmask.evaluation.random import SampleRandom
from unmask.evaluation.standing import Standing, checked, offer, standing_clean
from unmask.evaluation.subject import Batch, CellSettings, Subject, judge_for
from unmask.evaluation.target import Target
from unmask.evaluation.task import IterativeAttack, Task
from unmask.evaluation.threat import Ball
from unmask.results.outcome import CellOutcome, CleanOutcome

if TYPE_CHECKING:
    from unmask.components import ConfiguredAttack

__all__ = ["attack_cell"]


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
    subject: Subject,
    batch: Batch,
    ball: Ball,
    targets: Tensor | None,
    deadline: float | None,
    stream: Callable[..., SampleRandom],
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
                    targets=targets,
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
    spared: NDArray[np.bool_] | None = None,
    alone: bool = False,
    patient: bool = False,
    on_step: Callable[[int, int, int], None] = lambda done, total, standing: None,
    deadline: float | None = None,
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
        carried: The outcome at the next smaller radius, or of the stage before in a suite: what was found
            there counts here as well.
        spared: Samples that are not to be attacked [sample].
        alone: Attack what fell at smaller radii too, and keep how that went as `raw_correct`.
        patient: The model itself answers the first questions about a sample, before it is prepared.
        on_step: Told the progress of an iterative attack.
        deadline: `time.monotonic()` at which the door closes.

    Raises:
        Exception: Whatever the attack raises.
    """
    started = time.perf_counter()
    nearest = configured.entry.search == "nearest"
    device = batch.images.device
    deterministic = subject.oracle.facts.randomness == "deterministic"
    clean_correct = torch.as_tensor(clean.correct, device=device)
    targets = settings.targets_of(name, batch)
    alive = clean_correct > 0
    if targets is not None:
        # Where the label is the target there is nothing to reach.
        alive &= targets != batch.labels
    if carried is not None and not alone:
        alive &= torch.as_tensor(still_missed(carried, targets is not None), device=device)
    if spared is not None:
        alive &= ~torch.as_tensor(spared, device=device)
    rows = alive.nonzero().squeeze(1)
    judge = judge_for(subject, batch, settings, targets)
    standing = standing_clean(judge, batch, clean)
    before = standing.report.missed
    outcome_counts = _Counts.none(len(batch), device)
    violations = torch.full((len(batch),), int(Status.OK), dtype=torch.int8, device=device)
    twice = torch.zeros(len(batch), dtype=torch.float64, device=device)
    # A search in steps ends where it succeeds; one in a single call may walk past an example it has shown.
    watched = deterministic and not nearest and not isinstance(configured.attack, IterativeAttack)
    overlooked = torch.zeros(len(batch), dtype=torch.float64, device=device)
    oracles = subject.searched_by(nearest)
    if len(rows) and epsilon > 0:
        queries = configured.max_queries if configured.max_queries is not None else settings.max_queries
        ball = Ball(settings.norm, epsilon, settings.bounds, settings.kernels)
        earlier: Ledger | None = None
        for oracle in oracles:
            kept = torch.arange(len(rows), device=device)
            if earlier is not None:
                kept = _near_misses(standing, rows, earlier)
                rows = rows[kept]
                twice[rows] = 1.0
                violations[rows] = int(Status.OK)
            if len(rows) == 0:
                break
            part = Batch(batch.images[rows], batch.labels[rows], batch.ids[rows])
            stream = _streams(settings, subject, name, epsilon, part)
            ledger = Ledger(
                oracle=oracle,
                clean=part.images,
                labels=part.labels,
                ball=ball,
                random=stream("model"),
                nearest=nearest,
                targets=None if targets is None else targets[rows],
                max_queries=queries,
                deadline=deadline,
                patience=oracle.patience if patient else 0,
            )
            if earlier is not None:
                ledger.carry_on(earlier, kept)
            doors = _other_doors(subject, part, ball, ledger.targets, deadline, stream)
            target = Target(ledger, others=doors, run=subject.run)
            # The attack gets a ball, images and labels of its own: what it does to them must not reach the
            # judge.
            task = Task(
                target,
                part.images.clone(),
                part.labels.clone(),
                attrs.evolve(ball),
                stream("attack"),
                targets=None if ledger.targets is None else ledger.targets.clone(),
            )
            # On the way out the mode is what it was, also where an attack has changed it for good.
            with torch.enable_grad():
                for returned in run_attack(configured.attack, task, on_step):
                    valid, why = checked(returned, ledger)
                    # The first violation of a sample is the one that is told.
                    violations[rows] = torch.where(violations[rows] == int(Status.OK), why, violations[rows])
                    offer(standing, judge, ball, batch, rows[valid], returned[valid], deterministic, nearest)
            if watched:
                overlooked[rows] = (ledger.broken & (standing.report.missed[rows] > 0)).double()
            if deterministic:
                seen = torch.isfinite(ledger.best_score) | ledger.broken
                offer(standing, judge, ball, batch, rows[seen], ledger.best[seen], deterministic, nearest)
                # The door saw it fall, the judge does not: moving it by a rounding error turned the outcome.
                turned = ledger.broken & (standing.report.missed[rows] > 0)
                if not nearest:
                    exact = ball.project(ledger.best, around=part.images)
                    kept_best = (exact == standing.images[rows]).flatten(1).all(1)
                    door = torch.where(kept_best, ledger.best_score, torch.inf)
                    turned |= hangs_on_rounding(standing.report.gap[rows], door)
                violations[rows[turned]] = int(Status.BORDERLINE)
            outcome_counts.fill(rows, ledger)
            earlier = ledger
    found = _outcome(
        standing,
        clean,
        batch,
        settings,
        outcome_counts,
        violations,
        carried,
        nearest,
        time.perf_counter() - started,
        alone=alone,
        reached_before=None
        if targets is None
        else torch.where(targets == batch.labels, torch.nan, 1 - before),
    )
    if watched:
        found = attrs.evolve(found, overlooked=overlooked.cpu().numpy())
    if len(oracles) > 1:
        found = attrs.evolve(found, searched_twice=twice.cpu().numpy())
    return found


def _near_misses(standing: Standing, rows: Tensor, ledger: Ledger) -> Tensor:
    """Which samples stand so near the border that half precision's error may have kept them from falling.

    What the model itself answered every question about, in single precision, is none of them.
    """
    misled = (ledger.forwards - ledger.begun > (ledger.patience or 0)) & (standing.report.missed[rows] > 0)
    if not bool(misled.any()):
        return rows[:0]
    return (misled & (standing.report.gap[rows] <= ledger.oracle.error)).nonzero().squeeze(1)


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
    standing: Standing,
    clean: CleanOutcome,
    batch: Batch,
    settings: CellSettings,
    counts: _Counts,
    violations: Tensor,
    carried: CellOutcome | None,
    nearest: bool,
    seconds: float,
    alone: bool,
    reached_before: Tensor | None,
) -> CellOutcome:
    report = standing.report
    clean_correct = torch.as_tensor(clean.correct, device=report.correct.device)
    distance = settings.kernels.norms(standing.images.double() - batch.images.double(), settings.norm)
    if nearest:
        distance = torch.where((report.missed > 0) & (clean_correct > 0), torch.inf, distance)
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
        label_probability=report.label_probability.cpu().numpy(),
        squared_probability=report.squared_probability.cpu().numpy(),
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
    if reached_before is not None:
        aimed = torch.where(torch.isnan(reached_before), torch.nan, 1.0)
        found = attrs.evolve(
            found,
            target_reached=(aimed * (1 - report.missed)).cpu().numpy(),
            target_screening=(aimed * (1 - standing.screening.missed)).cpu().numpy(),
            target_clean=reached_before.cpu().numpy(),
        )
    if alone:
        found = attrs.evolve(found, raw_correct=found.correct)
    return found if carried is None else cascaded(found, carried)
