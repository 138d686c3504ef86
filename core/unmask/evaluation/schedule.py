"""The order of work: every model, attack, shard of samples and radius, each finished cell kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs
import numpy as np
import torch
from numpy.typing import NDArray

from unmask.components import ConfiguredAttack
from unmask.data import LabelledImages
from unmask.evaluation.cascade import cascaded, read_at
from unmask.evaluation.execution import CellRequest, no_keep
from unmask.evaluation.plan import Plan
from unmask.evaluation.progress import Progress
from unmask.evaluation.subject import Subject
from unmask.evaluation.suite import total
from unmask.results.folder import RunFolder
from unmask.results.outcome import CellOutcome, CleanOutcome

if TYPE_CHECKING:
    from unmask.engines.engine import Engine

__all__ = ["run_plan"]


def _clean(
    engine: Engine, model: str, number: int, folder: RunFolder | None, progress: Progress
) -> CleanOutcome:
    key = {"model": model, "shard": number}
    if folder is not None and (kept := folder.load_clean(key)) is not None and kept.complete:
        return kept
    found = engine.clean(model, number)
    if not found.finished:
        progress.warn(f"{model}: {found.message}")
    elif folder is not None:
        folder.save_clean(key, found)
    return found


@attrs.frozen(eq=False)
class _Lane:
    """One attack on one model for one shard: its radii are done in ascending order.

    As a stage of a suite it starts from `before`, what the stages before it left at every radius.
    """

    plan: Plan
    subject: Subject
    name: str
    shard_number: int
    shard: LabelledImages
    clean: CleanOutcome
    engine: Engine
    folder: RunFolder | None
    progress: Progress

    @property
    def attack(self) -> ConfiguredAttack:
        return self.plan.attacks[self.name]

    @property
    def left_out(self) -> str | None:
        """Why the attack is not run on this model, if it is not."""
        return self.plan.left_out.get((self.subject.name, self.name))

    def run(self, before: Mapping[float, CellOutcome] | None = None) -> dict[float, CellOutcome]:
        """Every radius' outcome; failures are outcomes too."""
        covered, count = self.plan.covered(self.name, self.shard_number), len(self.shard)
        if covered >= count:
            return self._run(before)
        if covered == 0:
            return {e: self._not_run(_NOT_COVERED) for e in self.plan.epsilons}
        rows = torch.arange(covered)
        part = attrs.evolve(self, shard=self.shard.select(rows), clean=self.clean.select(rows.numpy()))
        rest = CellOutcome.not_run(count - covered, _NOT_COVERED)
        return {e: CellOutcome.concatenate([found, rest]) for e, found in part._run(before).items()}

    def _run(self, before: Mapping[float, CellOutcome] | None) -> dict[float, CellOutcome]:
        if self.left_out is not None:
            return {e: self._not_run(self.left_out) for e in self.plan.epsilons}
        if not self.clean.finished:
            return {e: self._failed(self.clean.message) for e in self.plan.epsilons}
        if self.attack.entry.search == "nearest":
            return self._nearest(before)
        found: dict[float, CellOutcome] = {}
        smaller: CellOutcome | None = None
        for epsilon in self.plan.epsilons:
            earlier = None if before is None else before[epsilon]
            if earlier is not None and not earlier.finished:
                found[epsilon] = self._not_run(_STAGE_FAILED)
                continue
            missing = [e for e, outcome in found.items() if not outcome.finished]
            found[epsilon], reused = self._cell(epsilon, _worse(earlier, smaller), missing=missing)
            if found[epsilon].finished:
                smaller = found[epsilon]
            self._finished(found[epsilon], reused)
        return found

    def _not_run(self, reason: str) -> CellOutcome:
        self.progress.finished(reused=True)
        return CellOutcome.not_run(len(self.shard), reason)

    def _failed(self, reason: str) -> CellOutcome:
        self.progress.finished(reused=True)
        return CellOutcome.failed(len(self.shard), reason)

    def _nearest(self, before: Mapping[float, CellOutcome] | None) -> dict[float, CellOutcome]:
        # Of all radii most samples stand at the smallest; the others fell everywhere.
        first = self.plan.epsilons[0]
        if before is not None and not before[first].finished:
            return {e: self._not_run(_STAGE_FAILED) for e in self.plan.epsilons}
        spared = None if before is None else before[first].correct == 0
        nearest, reused = self._cell(math.inf, None, spared)
        found = {}
        for epsilon in self.plan.epsilons:
            if before is not None and not before[epsilon].finished:
                found[epsilon] = self._not_run(_STAGE_FAILED)
                continue
            here = nearest
            if nearest.finished:
                here = read_at(nearest, self.clean, epsilon, self.shard.images.float().numpy())
                here = here if before is None else cascaded(here, before[epsilon])
            # The search ran once; its time is entered once.
            found[epsilon] = here if epsilon == first else attrs.evolve(here, seconds=0.0)
            self._finished(found[epsilon], reused)
        return found

    def _cell(
        self,
        epsilon: float,
        carried: CellOutcome | None,
        spared: NDArray[np.bool_] | None = None,
        missing: Sequence[float] = (),
    ) -> tuple[CellOutcome, bool]:
        """A cell's outcome, and whether it was kept from an earlier run.

        Args:
            epsilon: The radius.
            carried: As in `CellRequest`.
            spared: As in `CellRequest`.
            missing: Smaller radii that failed, so that nothing of them is carried.
        """
        key = {
            "model": self.subject.name,
            "attack": self.name,
            "epsilon": float(epsilon).hex(),
            "shard": self.shard_number,
        }
        if missing:
            # Once those are repaired, this one has to start from what they found.
            key["without"] = [float(e).hex() for e in missing]
        folder = self.folder
        if folder is not None and (kept := folder.load_cell(key)) is not None and kept.complete:
            return kept, True
        self.progress.cell(self.subject.name, self.name, epsilon)
        request = CellRequest(
            model=self.subject.name,
            attack=self.name,
            epsilon=epsilon,
            shard=self.shard_number,
            clean=self.clean,
            carried=carried,
            spared=spared,
            begun=None if folder is None else folder.load_part(key),
        )
        keep = no_keep if folder is None else partial(folder.save_part, key)
        outcome = self.engine.cell(request, self.progress.step, keep)
        if not outcome.finished:
            self.progress.warn(
                f"{self.name} on {self.subject.name} at {epsilon:.4g} failed: {outcome.message}"
            )
        elif folder is not None:
            folder.save_cell(key, outcome)
        return outcome, False

    def _finished(self, outcome: CellOutcome, reused: bool) -> None:
        """Tell that a cell ended, and how many samples fell in it that were right before."""
        broken = int(((outcome.correct == 0) & (self.clean.correct > 0)).sum())
        forwards = 0 if reused else int(outcome.forwards.sum())
        self.progress.finished(reused=reused, broken=broken, forwards=forwards)


_NOT_COVERED = "run on the first samples only"
_STAGE_FAILED = "an earlier stage of the suite failed"


def _worse(one: CellOutcome | None, other: CellOutcome | None) -> CellOutcome | None:
    """Of each sample the outcome that is worse for the model, the first where neither is."""
    return one if other is None else other if one is None else cascaded(one, other)


def _suite(lanes: Sequence[_Lane]) -> list[dict[float, CellOutcome]]:
    """The outcomes of a suite's stages, each started from the one before, and then its own."""
    found: list[dict[float, CellOutcome]] = []
    ran: list[dict[float, CellOutcome]] = []
    for lane in lanes:
        found.append(lane.run(ran[-1] if ran else None))
        if lane.left_out is None:
            ran.append(found[-1])
    if not ran:
        return [*found, found[0]]
    return [*found, {epsilon: total([stage[epsilon] for stage in ran]) for epsilon in ran[0]}]


def _run_rows(
    plan: Plan, lanes: Sequence[_Lane], whole: str, found: dict[tuple[str, str, float, int], CellOutcome]
) -> None:
    """One job: an attack, or a suite with its stages, on one model for one shard."""
    rows = [lane.name for lane in lanes]
    suite = whole not in rows
    outcomes = _suite(lanes) if suite else [lanes[0].run()]
    for row, at in zip([*rows, whole] if suite else rows, outcomes, strict=True):
        for epsilon, outcome in at.items():
            found[lanes[0].subject.name, row, epsilon, lanes[0].shard_number] = outcome


def run_plan(
    plan: Plan, folder: RunFolder | None, progress: Progress, engine: Engine
) -> tuple[dict[str, CleanOutcome], dict[tuple[str, str, float], CellOutcome]]:
    """Do what is not done yet; returns the clean outcomes and those of all cells.

    Raises:
        KeyboardInterrupt: It was interrupted; what is finished is kept in the folder.
    """
    shards, suites = plan.shards, plan.stages
    stages = {stage for names in suites.values() for stage in names}
    searches = len(plan.attacks) - len(suites)
    progress.begin(len(plan.subjects) * searches * len(plan.epsilons) * len(shards))
    clean: dict[tuple[str, int], CleanOutcome] = {}
    found: dict[tuple[str, str, float, int], CellOutcome] = {}

    def judge(model: str, k: int) -> None:
        clean[model, k] = _clean(engine, model, k, folder, progress)

    def attack(subject: Subject, name: str, k: int) -> None:
        lanes = [
            _Lane(plan, subject, row, k, shards[k], clean[subject.name, k], engine, folder, progress)
            for row in suites.get(name, [name])
        ]
        _run_rows(plan, lanes, name, found)

    numbers = range(len(shards))
    jobs: list[Callable[[], None]] = [partial(judge, s.name, k) for s in plan.subjects for k in numbers]
    engine.run(jobs)
    names = [name for name in plan.attacks if name not in stages]
    jobs = [partial(attack, s, name, k) for s in plan.subjects for name in names for k in numbers]
    engine.run(jobs)
    whole = {(model, row, epsilon): None for model, row, epsilon, _ in found}
    return (
        {s.name: CleanOutcome.concatenate([clean[s.name, k] for k in numbers]) for s in plan.subjects},
        {cell: CellOutcome.concatenate([found[*cell, k] for k in numbers]) for cell in whole},
    )
