"""DeepFool."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import GradientSource, Task
from unmask_plugins.attacks.aims import fooled, wide
from unmask_plugins.attacks.validation import at_least, positive
from unmask_plugins.gradients.autograd import Autograd

__all__ = ["DeepFool"]

_BEYOND = 1e-6
"""Least step, as a share of the range of pixel values: where two logits tie exactly there is no distance to
go.
"""


@attrs.frozen
class DeepFool:
    """DeepFool (Moosavi-Dezfooli, Fawzi & Frossard 2016, algorithm 2 for l2, section 3.3 for linf).

    Goes from linearised boundary to linearised boundary, each time to the nearest, until the prediction
    changes. A sample that is there asks the model no more.

    Attributes:
        steps: Most iterations.
        overshoot: η: the example is (1 + η) times as far from the image as the boundaries are.
        candidates: How many classes are looked at, the label and those that are most likely at the image.
        gradient: Where the logits' gradients come from.
    """

    steps: int = attrs.field(default=50, validator=at_least(1))
    overshoot: float = attrs.field(default=0.02, validator=positive)
    candidates: int = attrs.field(default=10, validator=at_least(2))
    gradient: GradientSource = attrs.field(factory=Autograd)

    @attrs.frozen
    class State:
        """Algorithm 2's variables.

        Attributes:
            x: x_0 + (1 + η) r in the box, the example so far.
            r: The sum of all steps, float64.
            classes: The classes looked at, without the label, int64 [sample, class].
            done: The prediction has changed.
        """

        x: Tensor
        r: Tensor
        classes: Tensor
        done: Tensor

    def start(self, task: Task) -> State:
        """The images, and their most likely classes."""
        with torch.no_grad():
            logits = task.target(task.x)
        order = logits.nan_to_num(nan=-torch.inf).argsort(dim=1, descending=True, stable=True)
        others = order[order != task.labels[:, None]].reshape(len(order), logits.shape[1] - 1)
        return self.State(
            x=task.x,
            r=torch.zeros_like(task.x, dtype=torch.float64),
            classes=others[:, : self.candidates - 1],
            done=torch.zeros_like(task.labels, dtype=torch.bool),
        )

    def step(self, task: Task, state: State) -> State:
        """Lines 5 to 12, for the samples that still stand."""
        rows = (~state.done).nonzero().squeeze(1)
        if len(rows) == 0:
            return state
        part = task.select(rows)
        r = state.r[rows] + self._to_nearest(part, state.x[rows], state.classes[rows])
        low, high = task.ball.bounds
        x = (part.x.double() + (1 + self.overshoot) * r).clamp(low, high).to(task.x.dtype)
        return attrs.evolve(
            state,
            x=state.x.index_copy(0, rows, x),
            r=state.r.index_copy(0, rows, r),
            done=state.done.index_copy(0, rows, fooled(part, x)),
        )

    def _to_nearest(self, task: Task, x: Tensor, classes: Tensor) -> Tensor:
        """The step to the nearest of the linearised boundaries."""
        nearest = torch.full((len(task),), torch.inf, dtype=torch.float64, device=x.device)
        step = torch.zeros_like(x, dtype=torch.float64)
        for k in range(classes.shape[1]):
            towards = attrs.evolve(task, targets=classes[:, k])
            slope = self.gradient(towards, x, _logit_difference)
            w, f = slope.gradient.double(), slope.loss.double().abs()
            linf = task.ball.norm == "linf"
            dual = torch.linalg.vector_norm(w.flatten(1), ord=1 if linf else 2, dim=1)
            distance = torch.where(dual > 0, f / dual, torch.inf)
            low, high = task.ball.bounds
            length = wide(distance + _BEYOND * (high - low))
            direction = w.sign() if linf else w / wide(dual.clamp_min(1e-300))
            nearer = distance < nearest
            step = torch.where(wide(nearer), length * direction, step)
            nearest = torch.where(nearer, distance, nearest)
        return step


def _logit_difference(logits: Tensor, goals: Tensor) -> Tensor:
    """The target's logit less the label's."""
    values = logits.gather(1, goals)
    return values[:, 1] - values[:, 0]
