"""What an iterative attack is given, and what it, a loss and a gradient source must look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs
from torch import Tensor

if TYPE_CHECKING:
    from unmask.evaluation.random import SampleRandom
    from unmask.evaluation.target import Target
    from unmask.evaluation.threat import Ball

__all__ = ["GradientSource", "IterativeAttack", "Loss", "PlainAttack", "Slope", "Task"]

Loss = Callable[[Tensor, Tensor], Tensor]
"""Logits [sample, class] and labels [sample] to what an untargeted attack climbs, [sample]."""


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
    """

    target: Target
    x: Tensor
    labels: Tensor
    ball: Ball
    random: SampleRandom

    def __len__(self) -> int:
        return len(self.x)

    def select(self, rows: Tensor) -> Task:
        """The same task for some of its rows (repeats allowed)."""
        return attrs.evolve(
            self,
            target=self.target.select(rows),
            x=self.x[rows],
            labels=self.labels[rows],
            random=self.random.select(rows),
        )

    def through(self, target: Target) -> Task:
        """The same task at another view of the door, such as one member of an ensemble."""
        return attrs.evolve(self, target=target)


@runtime_checkable
class GradientSource(Protocol):
    """Where a search gets its direction from."""

    def __call__(self, task: Task, x: Tensor, loss: Loss) -> Slope:
        """Gradient and value of the loss at `x`, one point for every row of the task."""
        ...


@runtime_checkable
class PlainAttack(Protocol):
    """An attack in one call."""

    def __call__(
        self, target: Target, images: Tensor, labels: Tensor, budget: Ball, random: SampleRandom
    ) -> Tensor:
        """The final examples, one for every image."""
        ...


@runtime_checkable
class IterativeAttack(Protocol):
    """An attack in steps; the evaluation owns the loop.

    `steps` is how often `step` is called in one run and `restarts` (1 where absent) how many runs there
    are. A state is an attrs class; its tensors with one row per sample follow the samples as some leave.
    Its field `x` is the example so far.
    """

    steps: int

    def start(self, task: Task) -> Any:
        """The state before the first step."""
        ...

    def step(self, task: Task, state: Any) -> Any:
        """The state one step later."""
        ...
