"""Round the front end: BPDA."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import Loss, Slope, Task
from unmask_plugins.gradients.autograd import slope_of
from unmask_plugins.gradients.expectation import mean_slope

if TYPE_CHECKING:
    from unmask.evaluation.inspection import ModelFacts

__all__ = ["Bypass"]


@attrs.frozen
class Bypass:
    """Backward-pass differentiable approximation (Athalye, Carlini & Wagner 2018, section 4.1).

    The forward pass goes through everything, the backward pass through the backbone alone, or also through
    the surrogate that a front end declares.

    Attributes:
        at: Where the backbone is differentiated. ``input``: at the image. ``front-end``: at the front end's
            output, then through the front end's surrogate; the textbook straight-through form where it has
            none.
        average: For a randomised ensemble, average over its members; else go through the member drawn.
    """

    at: Literal["input", "front-end"] = attrs.field(
        default="input", validator=attrs.validators.in_(("input", "front-end"))
    )
    average: bool = True

    access: ClassVar[str] = "gradients"

    def __call__(self, task: Task, x: Tensor, loss: Loss) -> Slope:
        """One forward and one backward per sample and member."""
        members = task.target.members if self.average else None
        if members is None:
            return self._one(task, x, loss)
        return mean_slope([(p, self._one(task.through(member), x, loss)) for p, member in members])

    def _one(self, task: Task, x: Tensor, loss: Loss) -> Slope:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            # A member without a front end among others that have one is differentiated as it is.
            through = task.target.bypass(x, at=self.at) if task.target.has_front_end else task.target(x)
            return slope_of(through, x, task, loss)

    def why_not(self, facts: ModelFacts) -> str | None:
        """Why it does not apply to a model, if it does not."""
        return None if facts.has_front_end else "the model has no front end to go round"
