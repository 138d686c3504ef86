"""Projected gradient descent."""

from __future__ import annotations

import math
from typing import Literal

import attrs
from torch import Tensor

from unmask.evaluation.task import GradientSource, Task
from unmask_plugins.attacks.losses import LossName, loss_named
from unmask_plugins.attacks.steepest import climbed
from unmask_plugins.attacks.validation import at_least, between, positive_or_none
from unmask_plugins.gradients.autograd import Autograd
from unmask_plugins.gradients.expectation import ExpectationOverTransformation

__all__ = ["PGD"]


@attrs.frozen
class PGD:
    """Projected gradient descent (Madry et al. 2018, section 2.1).

    x <- P(x + α d), where d is the steepest unit step of the norm (in l1 a sparse one) and P the Euclidean
    projection onto ball and box together (`unmask_plugins.attacks.steepest`).

    Attributes:
        steps: Steps of each run.
        restarts: Runs, each from a point of its own.
        step_size: α in units of a pixel value; ε/4 unless given.
        schedule: How the step size goes on from α: ``constant``; ``linear`` or ``cosine``: down to zero.
        loss: What is climbed: ``ce``, ``margin`` or ``dlr``.
        gradient: Where the direction comes from.
        eot: Draws that each gradient is averaged over; members that can be enumerated are, at no more than
            one evaluation each.
        random_start: Start at a random point of the ball instead of the image itself.
        sparsity: In l1, the share of the coordinates that a step leaves alone; at least one is moved.
    """

    steps: int = attrs.field(default=50, validator=at_least(1))
    restarts: int = attrs.field(default=1, validator=at_least(1))
    step_size: float | None = attrs.field(default=None, validator=positive_or_none)
    schedule: Literal["constant", "linear", "cosine"] = attrs.field(
        default="constant", validator=attrs.validators.in_(("constant", "linear", "cosine"))
    )
    loss: LossName = attrs.field(default="ce", validator=attrs.validators.in_(("ce", "margin", "dlr")))
    gradient: GradientSource = attrs.field(factory=Autograd)
    eot: int = attrs.field(default=1, validator=at_least(1))
    random_start: bool = True
    sparsity: float = attrs.field(default=0.99, validator=between(0, 1))

    @attrs.frozen
    class State:
        """Where every sample is, after k steps."""

        x: Tensor
        k: int = 0

    def start(self, task: Task) -> State:
        """A random point of every ball, or the images."""
        return self.State(task.ball.random_point(task.x, task.random) if self.random_start else task.x)

    def step(self, task: Task, state: State) -> State:
        """One ascent step, projected."""
        α = (self.step_size or task.ball.ε / 4) * self._share_of_step(state.k / self.steps)
        slope = self._source(task, state.x, loss_named(self.loss))
        return self.State(climbed(task, state.x, slope.gradient, α, 1 - self.sparsity), state.k + 1)

    def _share_of_step(self, done: float) -> float:
        if self.schedule == "linear":
            return 1 - done
        return 1.0 if self.schedule == "constant" else (1 + math.cos(math.pi * done)) / 2

    @property
    def _source(self) -> GradientSource:
        return self.gradient if self.eot == 1 else ExpectationOverTransformation(self.gradient, self.eot)
