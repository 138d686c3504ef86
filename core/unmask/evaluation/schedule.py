"""The order of work: every model, attack, shard of samples and radius, each finished cell kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
import torch

from unmask.components import ConfiguredAttack
from unmask.data import LabelledImages
from unmask.evaluation.cascade import read_at
from unmask.evaluation.cells import Batch, CellSettings, Subject, attack_cell, judge_clean
from unmask.evaluation.progress import Progress
from unmask.results.folder import RunFolder
from unmask.results.outcome import CellOutcome, CleanOutcome

__all__ = ["Plan", "run_plan"]


@attrs.frozen(eq=False)
class Plan:
    """A checked evaluation.

    Attributes:
        subjects: The models of the run.
        attacks: By name.
        left_out: Why a (model, attack) pair is not run.
        data: The samples.
        epsilons: Ascending.
        settings: What all cells share.
        batch_size: Samples attacked together.
    """

    SHARD: ClassVar[int] = 256
    """Samples of one file in a run folder, whatever the batch size."""

    subjects: Sequence[Subject]
    attacks: Mapping[str, ConfiguredAttack]
    left_out: Mapping[tuple[str, str], str]
    data: LabelledImages
    epsilons: Sequence[float]
    settings: CellSettings
    batch_size: int | None

    @property
    def shards(self) -> list[LabelledImages]:
        """The samples in pieces, each the unit of work that is kept."""
        return [self.data.select(rows) for rows in torch.arange(len(self.data)).split(self.SHARD)]


def _batches(shard: LabelledImages, subject: Subject, batch_size: int | None) -> list[Batch]:
    facts = subject.oracle.facts
    images = shard.images.to(device=facts.device, dtype=facts.dtype)
    labels, ids = shard.labels.to(facts.device), shard.ids.to(facts.device)
    return [
        Batch(images[rows], labels[rows], ids[rows])
        for rows in torch.arange(len(shard), device=facts.device).split(batch_size or len(shard))
    ]


def _clean(
    plan: Plan, subject: Subject, k: int, shard: LabelledImages, folder: RunFolder | None
) -> CleanOutcome:
    key = {"model": subject.name, "shard": k}
    if folder is not None and (kept := folder.load_clean(key)) is not None:
        return kept
    batches = _batches(shard, subject, plan.batch_size)
    found = CleanOutcome.concatenate([judge_clean(subject, batch, plan.settings) for batch in batches])
    if folder is not None:
        folder.save_clean(key, found)
    return found


@attrs.frozen(eq=False)
class _Lane:
    """One attack on one model for one shard: its radii are done in ascending order."""

    plan: Plan
    subject: Subject
    name: str
    shard_number: int
    shard: LabelledImages
    clean: CleanOutcome
    folder: RunFolder | None
    progress: Progress

    @property
    def attack(self) -> ConfiguredAttack:
        return self.plan.attacks[self.name]

    def run(self) -> dict[float, CellOutcome]:
        """Every radius' outcome; failures are outcomes too."""
        reason = self.plan.left_out.get((self.subject.name, self.name))
        if reason is not None:
            for _ in self.plan.epsilons:
                self.progress.finished(reused=True)
            return {e: CellOutcome.not_run(len(self.shard), reason) for e in self.plan.epsilons}
        if self.attack.entry.search == "nearest":
            return self._nearest()
        found: dict[float, CellOutcome] = {}
        carried: CellOutcome | None = None
        for epsilon in self.plan.epsilons:
            outcome = self._cell(epsilon, carried)
            found[epsilon] = outcome
            if outcome.finished:
                carried = outcome
            self.progress.finished(reused=False)
        return found

    def _nearest(self) -> dict[float, CellOutcome]:
        nearest = self._cell(math.inf, None)
        found = {}
        for epsilon in self.plan.epsilons:
            self.progress.finished(reused=False)
            found[epsilon] = (
                read_at(nearest, self.clean, epsilon, self.shard.images.float().numpy())
                if nearest.finished
                else nearest
            )
        # The search ran once; its time is entered once.
        first = self.plan.epsilons[0]
        return {e: o if e == first else attrs.evolve(o, seconds=0.0) for e, o in found.items()}

    def _cell(self, epsilon: float, carried: CellOutcome | None) -> CellOutcome:
        key = {
            "model": self.subject.name,
            "attack": self.name,
            "epsilon": float(epsilon).hex(),
            "shard": self.shard_number,
        }
        if self.folder is not None and (kept := self.folder.load_cell(key)) is not None:
            return kept
        self.progress.cell(self.subject.name, self.name, epsilon)
        try:
            outcome = self._attacked(epsilon, carried)
        except Exception as cause:
            # Whatever a plugin raises must cost its own cell alone.
            message = f"{type(cause).__name__}: {cause}"
            self.progress.warn(f"{self.name} on {self.subject.name} at {epsilon:.4g} failed: {message}")
            return CellOutcome.failed(len(self.shard), message)
        if self.folder is not None:
            self.folder.save_cell(key, outcome)
        return outcome

    def _attacked(self, epsilon: float, carried: CellOutcome | None) -> CellOutcome:
        parts, start = [], 0
        for batch in _batches(self.shard, self.subject, self.plan.batch_size):
            rows = slice(start, start + len(batch))
            start += len(batch)
            parts.append(
                attack_cell(
                    self.name,
                    self.attack,
                    self.subject,
                    batch,
                    self.clean.select(rows),
                    epsilon,
                    self.plan.settings,
                    carried=None if carried is None else carried.select(rows),
                    on_step=self.progress.step,
                )
            )
        return CellOutcome.concatenate(parts)


def run_plan(
    plan: Plan, folder: RunFolder | None, progress: Progress
) -> tuple[dict[str, CleanOutcome], dict[tuple[str, str, float], CellOutcome]]:
    """Do what is not done yet; returns the clean outcomes and those of all cells."""
    shards = plan.shards
    progress.begin(len(plan.subjects) * len(plan.attacks) * len(plan.epsilons) * len(shards))
    clean_parts: dict[str, list[CleanOutcome]] = {}
    cell_parts: dict[tuple[str, str, float], list[CellOutcome]] = {}
    for subject in plan.subjects:
        clean = [_clean(plan, subject, k, shard, folder) for k, shard in enumerate(shards)]
        clean_parts[subject.name] = clean
        for name in plan.attacks:
            for k, shard in enumerate(shards):
                lane = _Lane(plan, subject, name, k, shard, clean[k], folder, progress)
                for epsilon, outcome in lane.run().items():
                    cell_parts.setdefault((subject.name, name, epsilon), []).append(outcome)
    return (
        {name: CleanOutcome.concatenate(parts) for name, parts in clean_parts.items()},
        {key: CellOutcome.concatenate(parts) for key, parts in cell_parts.items()},
    )
