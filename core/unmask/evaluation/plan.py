"""A checked evaluation: which models, attacks, samples and radii, and what all its cells share."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import attrs
import torch

from unmask.components import ConfiguredAttack
from unmask.data import LabelledImages
from unmask.evaluation.subject import CellSettings, Subject
from unmask.evaluation.suite import is_suite, stages_of
from unmask.models.guest import Visit

__all__ = ["Plan"]


@attrs.frozen(eq=False)
class Plan:
    """A checked evaluation.

    Attributes:
        subjects: The models of the run.
        attacks: By name; the stages of a suite are among them, before it.
        left_out: Why a (model, attack) pair is not run.
        data: The samples.
        epsilons: Ascending.
        settings: What all cells share.
        limits: How many samples, the first ones, an attack is run on, where not on all.
        alone: Attacks that are run at every radius as if there were no other.
        visit: What the models were in this process, so that an attack that changes one costs its own cell.
    """

    SHARD: ClassVar[int] = 256
    """Samples of one file in a run folder, whatever the batch size."""

    subjects: Sequence[Subject]
    attacks: Mapping[str, ConfiguredAttack]
    left_out: Mapping[tuple[str, str], str]
    data: LabelledImages
    epsilons: Sequence[float]
    settings: CellSettings
    limits: Mapping[str, int] = attrs.field(factory=dict)
    alone: Collection[str] = ()
    visit: Visit | None = None

    @property
    def stages(self) -> dict[str, list[str]]:
        """Every suite's stages, by name."""
        return {
            name: list(stages_of(name, attack, self.settings.norm))
            for name, attack in self.attacks.items()
            if is_suite(attack)
        }

    @property
    def shards(self) -> list[LabelledImages]:
        """The samples in pieces, each the unit of work that is kept."""
        return [self.data.select(rows) for rows in torch.arange(len(self.data)).split(self.SHARD)]

    def shard(self, number: int) -> LabelledImages:
        """One of `shards`."""
        first = number * self.SHARD
        return self.data.select(torch.arange(first, min(first + self.SHARD, len(self.data))))

    def subject(self, name: str) -> Subject:
        """A model by its name."""
        return next(subject for subject in self.subjects if subject.name == name)

    def is_first(self, attack: str, epsilon: float) -> bool:
        """Whether this is the first search of the run, after which its models may have fallen altogether."""
        first = next((name for name, known in self.attacks.items() if not is_suite(known)), None)
        return attack == first and epsilon in (self.epsilons[0], math.inf)

    def covered(self, attack: str, shard: int) -> int:
        """How many samples of a shard, the first ones, an attack is run on."""
        first = shard * self.SHARD
        return max(0, min(self.limits.get(attack, len(self.data)), len(self.data)) - first)
