"""The fast gradient sign method."""

from __future__ import annotations

from typing import ClassVar

import attrs
from torch import Tensor

from unmask.evaluation.task import GradientSource, Task
from unmask_plugins.attacks.losses import LossName, loss_named
from unmask_plugins.attacks.steepest import climbed
from unmask_plugins.gradients.autograd import Autograd

__all__ = ["FGSM"]


@attrs.frozen
class FGSM:
    """Fast gradient sign method (Goodfellow et al. 2015, section 4): one step of length ε from the image.

    x + ε d, where d is the steepest unit step of the norm.

    Attributes:
        loss: What is climbed: ``ce``, ``margin`` or ``dlr``.
        gradient: Where the direction comes from.
    """

    loss: LossName = attrs.field(default="ce", validator=attrs.validators.in_(("ce", "margin", "dlr")))
    gradient: GradientSource = attrs.field(factory=Autograd)

    steps: ClassVar[int] = 1

    @attrs.frozen
    class State:
        """Where every sample is."""

        x: Tensor

    def start(self, task: Task) -> State:
        """The images."""
        return self.State(task.x)

    def step(self, task: Task, state: State) -> State:
        """The one step."""
        slope = self.gradient(task, state.x, loss_named(self.loss))
        return self.State(climbed(task, task.x, slope.gradient, task.ball.ε))
