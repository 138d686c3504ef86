"""Doing one piece of an evaluation, wherever that is: in this process or in a worker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import numpy as np
from numpy.typing import NDArray

from unmask import crashes, interrupt
from unmask.data import LabelledImages
from unmask.evaluation.cells import attack_cell
from unmask.evaluation.subject import Batch, Subject, judge_clean
from unmask.evaluation.time_limit import limited
from unmask.interrupt import CellTimeoutError
from unmask.results.outcome import CellOutcome, CleanOutcome

if TYPE_CHECKING:
    from unmask.evaluation.plan import Plan

__all__ = ["CellRequest", "clean_outcome", "limit_of", "no_keep", "no_step", "outcome_of"]


@attrs.frozen(eq=False, kw_only=True)
class CellRequest:
    """One cell for one shard of the samples, with all that its outcome depends on besides the plan.

    Attributes:
        model: Name of the model.
        attack: Name of the attack, or of a stage of a suite.
        epsilon: The radius; inf for a nearest search.
        shard: Which shard.
        clean: What the model makes of the shard's clean images; of the first ones, where only those are
            attacked.
        carried: What earlier cells found for the same samples, which counts here as well.
        spared: Samples that are not to be attacked [sample].
        begun: The outcome of the first samples, from a run that was interrupted.
    """

    model: str
    attack: str
    epsilon: float
    shard: int
    clean: CleanOutcome
    carried: CellOutcome | None = None
    spared: NDArray[np.bool_] | None = None
    begun: CellOutcome | None = None


def no_step(done: int, total: int, standing: int) -> None:
    """Tells nobody."""


def no_keep(outcome: CellOutcome) -> None:
    """Keeps nothing."""


def limit_of(plan: Plan, attack: str | None) -> float | None:
    """Seconds for each cell of an attack: its own limit, or the run's; None: for the clean images."""
    own = None if attack is None else plan.attacks[attack].timeout
    return own if own is not None else plan.settings.timeout


def _batch(shard: LabelledImages, subject: Subject, rows: slice) -> Batch:
    facts = subject.oracle.facts
    return Batch(
        shard.images[rows].to(device=facts.device, dtype=facts.dtype),
        shard.labels[rows].to(facts.device),
        shard.ids[rows].to(facts.device),
    )


def clean_outcome(plan: Plan, model: str, number: int) -> CleanOutcome:
    """What a model makes of the clean images of a shard; whatever it raises costs its own outcomes alone.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    subject, shard = plan.subject(model), plan.shard(number)
    limit = limit_of(plan, None)

    def judged() -> list[CleanOutcome]:
        return subject.batch.run(
            len(shard), lambda rows: judge_clean(subject, _batch(shard, subject, rows), plan.settings)
        )

    try:
        with crashes.tried({"model": model, "shard": number}, limit):
            parts = limited(limit, judged)
    except (Exception, CellTimeoutError) as cause:
        return CleanOutcome.failed(len(shard), f"the model failed on clean images: {crashes.reason(cause)}")
    return CleanOutcome.concatenate(parts)


def outcome_of(
    plan: Plan,
    request: CellRequest,
    *,
    on_step: Callable[[int, int, int], None] = no_step,
    keep: Callable[[CellOutcome], None] = no_keep,
) -> CellOutcome:
    """The outcome of a cell; whatever a plugin raises becomes one that failed, and costs its own cell alone.

    Args:
        plan: The evaluation.
        request: The cell.
        on_step: Told the progress of an iterative attack.
        keep: Given what is there of the outcome, where the work is ended between two batches.

    Raises:
        KeyboardInterrupt: Ctrl-C, or its wish to end the work after a batch.
    """
    count = len(request.clean)
    doing = {"model": request.model, "attack": request.attack}
    doing |= {"epsilon": request.epsilon.hex(), "shard": str(request.shard)}
    try:
        with crashes.tried(doing, limit_of(plan, request.attack)):
            outcome = _attacked(plan, request, plan.shard(request.shard), on_step, keep)
    except (Exception, CellTimeoutError) as cause:
        outcome = CellOutcome.failed(count, crashes.reason(cause))
    changed = None if plan.visit is None else plan.visit.put_back()
    if changed is not None:
        # What it found may hold for another model; the cells after it have the right one again.
        return CellOutcome.failed(count, changed)
    return outcome


def _attacked(
    plan: Plan,
    request: CellRequest,
    shard: LabelledImages,
    on_step: Callable[[int, int, int], None],
    keep: Callable[[CellOutcome], None],
) -> CellOutcome:
    subject, configured = plan.subject(request.model), plan.attacks[request.attack]
    limit = limit_of(plan, request.attack)
    deadline = None if limit is None else time.monotonic() + limit
    carried, spared = request.carried, request.spared
    done = [] if request.begun is None else [request.begun]
    first = sum(map(len, done))

    def attacked(part: slice) -> None:
        if done and interrupt.asked():
            keep(CellOutcome.concatenate(done))
            raise KeyboardInterrupt
        rows = slice(first + part.start, first + part.stop)
        done.append(
            attack_cell(
                request.attack,
                configured,
                subject,
                _batch(shard, subject, rows),
                request.clean.select(rows),
                request.epsilon,
                plan.settings,
                carried=None if carried is None else carried.select(rows),
                spared=None if spared is None else spared[rows],
                alone=request.attack in plan.alone,
                patient=plan.is_first(request.attack, request.epsilon),
                on_step=on_step,
                deadline=deadline,
            )
        )

    limited(limit, lambda: subject.batch.run(len(request.clean) - first, attacked))
    return CellOutcome.concatenate(done)
