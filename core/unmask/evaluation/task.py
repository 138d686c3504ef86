"""What an iterative attack is given, and what it, a loss and a gradient source must look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs
import torch
from torch import Tensor

if TYPE_CHECKING:
    from unmask.configured import ConfiguredAttack
    from unmask.evaluation.random import SampleRandom
    from unmask.evaluation.target import Target
    from unmask.evaluation.threat import Ball

__all__ = ["GradientSource", "IterativeAttack", "Loss", "PlainAttack", "Slope", "Suite", "Task"]

Loss = Callable[[Tensor, Tensor], Tensor]
"""Logits [sample, class] and goals to what an attack climbs, [sample].

Goals are the labels, int64 [sample]; in a targeted task label and target, int64 [sample, 2]. They have one
row per sample, so that whatever repeats or selects rows of logits does the same to them.
"""


@attrs.frozen(eq=False)
class Slope:
    """What a gradient source tells about the loss at a point.

    Attributes:
        gradient: Of every sample's loss by its image, [sample, channel, height, width].
        loss: The loss at the point itself, [sample].
        logits: The model's answer at the point, [sample, class]; the mean over draws for randomised models.
    """

    gradient: Tensor
    loss: Tensor
    logits: Tensor


@attrs.frozen(eq=False)
class Task:
    """Some samples of one cell, as an attack sees them.

    Attributes:
        target: The door to the model, for exactly these rows.
        x: The clean images [sample, channel, height, width].
        labels: Their classes, int64 [sample].
        ball: Where the search may go.
        random: Every sample's own random stream.
        run: Which run of the attack this is, from 0.
        targets: The classes to be reached, int64 [sample]; None: any but the label.
    """

    target: Target
    x: Tensor
    labels: Tensor
    ball: Ball
    random: SampleRandom
    run: int = 0
    targets: Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    @property
    def goals(self) -> Tensor:
        """What a loss is told of every sample: its label, and its target where there is one."""
        return self.labels if self.targets is None else torch.stack([self.labels, self.targets], 1)

    def select(self, rows: Tensor) -> Task:
        """The same task for some of its rows (repeats allowed)."""
        return attrs.evolve(
            self,
            target=self.target.select(rows),
            x=self.x[rows],
            labels=self.labels[rows],
            random=self.random.select(rows),
            targets=None if self.targets is None else self.targets[rows],
        )

    def through(self, target: Target) -> Task:
        """The same task at another view of the door, such as one member of an ensemble."""
        return attrs.evolve(self, target=target)


@runtime_checkable
class GradientSource(Protocol):
    """Where a search gets its direction from."""

    def __call__(self, task: Task, x: Tensor, loss: Loss) -> Slope:
        """Gradient and value of the loss at `x`, one point for every row of the task.

        The loss is called with logits and `task.goals`, both repeated or selected alike.
        """
        ...


@runtime_checkable
class PlainAttack(Protocol):
    """An attack in one call; in a targeted run `target.targets` has the classes to be reached."""

    def __call__(
        self, target: Target, images: Tensor, labels: Tensor, budget: Ball, random: SampleRandom
    ) -> Tensor:
        """The final examples, one for every image."""
        ...


@runtime_checkable
class IterativeAttack(Protocol):
    """An attack in steps; the evaluation owns the loop.

    `steps` is how often `step` is called in one run and `restarts` (1 where absent) how many runs there
    are; where that depends on the task, such as on its number of classes, a method ``runs(task) -> int`` says
    so instead. `Task.run` is the number of the present one. A state is an attrs class; its tensors with one
    row per sample follow the samples as some leave. Its field `x` is the example so far.
    """

    steps: int

    def start(self, task: Task) -> Any:
        """The state before the first step."""
        ...

    def step(self, task: Task, state: Any) -> Any:
        """The state one step later."""
        ...


@runtime_checkable
class Suite(Protocol):
    """Attacks that are run one after the other, each on what those before it left standing."""

    def stages(self, norm: str) -> Mapping[str, ConfiguredAttack]:
        """The attacks by name, in their order."""
        ...
