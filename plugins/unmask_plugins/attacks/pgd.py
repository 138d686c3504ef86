"""Projected gradient descent."""

from __future__ import annotations

import attrs
from torch import Tensor

from unmask.evaluation.task import GradientSource, Task
from unmask_plugins.attacks.losses import LossName, loss_named
from unmask_plugins.attacks.validation import at_least, positive_or_none
from unmask_plugins.gradients.autograd import Autograd
from unmask_plugins.gradients.expectation import ExpectationOverTransformation

__all__ = ["PGD"]


@attrs.frozen
class PGD:
    """Projected gradient descent (Madry et al. 2018, section 2.1).

    x <- P(x + α d), where d is the steepest unit step of the norm and P projects onto ball and box.

    Attributes:
        steps: Steps of each run.
        restarts: Runs, each from a point of its own.
        step_size: α in units of a pixel value; ε/4 unless given.
        loss: What is climbed: ``ce``, ``margin`` or ``dlr``.
        gradient: Where the direction comes from.
        eot: Draws that each gradient is averaged over; members that can be enumerated are, at no more than
            one evaluation each.
        random_start: Start at a random point of the ball instead of the image itself.
    """

    steps: int = attrs.field(default=50, validator=at_least(1))
    restarts: int = attrs.field(default=1, validator=at_least(1))
    step_size: float | None = attrs.field(default=None, validator=positive_or_none)
    loss: LossName = attrs.field(default="ce", validator=attrs.validators.in_(("ce", "margin", "dlr")))
    gradient: GradientSource = attrs.field(factory=Autograd)
    eot: int = attrs.field(default=1, validator=at_least(1))
    random_start: bool = True

    @attrs.frozen
    class State:
        """Where every sample is."""

        x: Tensor

    def start(self, task: Task) -> State:
        """A random point of every ball, or the images."""
        return self.State(task.ball.random_point(task.x, task.random) if self.random_start else task.x)

    def step(self, task: Task, state: State) -> State:
        """One ascent step, projected."""
        α = self.step_size or task.ball.ε / 4
        d = task.ball.steepest(self._source(task, state.x, loss_named(self.loss)).gradient)
        return self.State(task.ball.project(state.x + α * d, around=task.x))

    @property
    def _source(self) -> GradientSource:
        return self.gradient if self.eot == 1 else ExpectationOverTransformation(self.gradient, self.eot)
