"""Gradient ascent with shrinking steps."""

from __future__ import annotations

import attrs
from torch import Tensor
from torch.nn.functional import cross_entropy

import unmask
from unmask import GradientSource, Task


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(logits, labels, reduction="none")


@attrs.frozen
class ShrinkingSteps:
    """Climbs the cross-entropy from the clean image; step k of n has length 2ε / (k + 1).

    Attributes:
        steps: How often it steps.
        gradient: Where the direction comes from.
    """

    steps: int = attrs.field(default=10, validator=attrs.validators.ge(1))
    gradient: GradientSource = attrs.field(factory=lambda: unmask.gradient("autograd"))

    @attrs.frozen
    class State:
        """Where the search stands: `x` and how many steps were made."""

        x: Tensor
        done: int

    def start(self, task: Task) -> State:
        """The clean images."""
        return self.State(task.x, 0)

    def step(self, task: Task, state: State) -> State:
        """One step up the loss, back into the ball."""
        slope = self.gradient(task, state.x, _loss)
        length = 2 * task.ball.epsilon / (state.done + 1)
        x = task.ball.project(state.x + length * task.ball.steepest(slope.gradient), around=task.x)
        return self.State(x, state.done + 1)
