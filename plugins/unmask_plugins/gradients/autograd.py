"""The model's own gradient."""

from __future__ import annotations

from typing import ClassVar

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import Loss, Slope, Task

__all__ = ["Autograd", "slope_of"]


def slope_of(logits: Tensor, x: Tensor, task: Task, loss: Loss) -> Slope:
    """Loss of these logits and its gradient at `x`; NaN entries of the gradient are replaced by zero.

    The door has counted them by then; a search must not be carried off by them.
    """
    values = loss(logits, task.goals)
    (gradient,) = torch.autograd.grad(values.sum(), x)
    return Slope(torch.nan_to_num(gradient, nan=0.0), values.detach(), logits.detach())


@attrs.frozen
class Autograd:
    """Back-propagation through the whole model, one draw of its randomness."""

    access: ClassVar[str] = "gradients"

    def __call__(self, task: Task, x: Tensor, loss: Loss) -> Slope:
        """One forward and one backward per sample."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return slope_of(task.target(x), x, task, loss)
