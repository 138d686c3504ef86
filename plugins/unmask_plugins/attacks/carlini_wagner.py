"""Carlini and Wagner's attack."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import GradientSource, Task
from unmask_plugins.attacks.aims import wide
from unmask_plugins.attacks.losses import loss_named
from unmask_plugins.attacks.validation import at_least, positive
from unmask_plugins.gradients.autograd import Autograd

__all__ = ["CarliniWagner"]

_INSIDE = 1 - 1e-6
"""Images are drawn in from the border of the box by this factor, where the change of variable has no
inverse.
"""

_β1, _β2, _TINY = 0.9, 0.999, 1e-8
"""Adam's constants (Kingma & Ba 2015, algorithm 1)."""


@attrs.frozen
class CarliniWagner:
    """The l2 attack of Carlini & Wagner (2017, section VI-A), untargeted form of section V.

    Minimises |x - x_0|^2 + c f(x) by Adam in the variable w of x = (1 + tanh w) / 2, scaled to the box, where
    f = max(logit of the label - largest other, -κ); for a target, max(largest other - logit of the target,
    -κ). The weight c is searched for each sample: bisected between one that failed and one that succeeded,
    and multiplied by ten while none did. Searches run their whole length.

    Attributes:
        steps: Adam's steps in each search of c.
        searches: How many weights c are tried.
        rate: Adam's learning rate.
        c: The first weight.
        confidence: κ, by how much the winning logit must lead.
        gradient: Where the gradient of f comes from.
    """

    iterations: int = attrs.field(default=1000, alias="steps", validator=at_least(1))
    searches: int = attrs.field(default=9, validator=at_least(1))
    rate: float = attrs.field(default=0.01, validator=positive)
    c: float = attrs.field(default=1e-3, validator=positive)
    confidence: float = attrs.field(default=0.0, validator=at_least(0))
    gradient: GradientSource = attrs.field(factory=Autograd)

    @property
    def steps(self) -> int:
        """Of all searches together."""
        return self.iterations * self.searches

    @attrs.frozen
    class State:
        """Where the search is.

        Attributes:
            x: The closest example that succeeded, the image where none did.
            size: Its distance, inf where none did.
            w: The variable.
            m: Adam's first moment.
            v: Adam's second moment.
            c: The weight tried.
            low: The largest weight that failed.
            high: The smallest that succeeded, inf where none did.
            success: This search succeeded.
            k: Steps made.
        """

        x: Tensor
        size: Tensor
        w: Tensor
        m: Tensor
        v: Tensor
        c: Tensor
        low: Tensor
        high: Tensor
        success: Tensor
        k: int = 0

    def start(self, task: Task) -> State:
        """The images and the first weight."""
        size = torch.full((len(task),), torch.inf, dtype=torch.float64, device=task.x.device)
        w = self._variable(task)
        return self.State(
            x=task.x,
            size=size,
            w=w,
            m=torch.zeros_like(w),
            v=torch.zeros_like(w),
            c=torch.full_like(size, self.c),
            low=torch.zeros_like(size),
            high=size.clone(),
            success=torch.zeros_like(task.labels, dtype=torch.bool),
        )

    def step(self, task: Task, state: State) -> State:
        """One step of Adam; after the last of a search the next weight."""
        s = state
        low, high = task.ball.bounds
        tanh = s.w.tanh()
        x = ((1 + tanh) * ((high - low) / 2) + low).clamp(low, high).to(task.x.dtype)
        slope = self.gradient(task, x, loss_named("margin"))
        success = slope.loss > self.confidence
        distance = task.ball.distance(x, task.x)
        closer = success & (distance < s.size)
        # Where f is at its floor it pulls no more.
        by_x = 2 * (x - task.x).double() - wide(s.c * ~success) * slope.gradient.double()
        by_w = by_x * (1 - tanh.square()) * ((high - low) / 2)
        t = s.k % self.iterations + 1
        m = _β1 * s.m + (1 - _β1) * by_w
        v = _β2 * s.v + (1 - _β2) * by_w.square()
        ahead = (m / (1 - _β1**t)) / ((v / (1 - _β2**t)).sqrt() + _TINY)
        s = attrs.evolve(
            s,
            x=torch.where(wide(closer), x, s.x),
            size=torch.where(closer, distance, s.size),
            w=s.w - self.rate * ahead,
            m=m,
            v=v,
            success=s.success | success,
            k=s.k + 1,
        )
        return s if s.k % self.iterations else self._next_weight(task, s)

    def _next_weight(self, task: Task, s: State) -> State:
        low = torch.where(s.success, s.low, torch.maximum(s.low, s.c))
        high = torch.where(s.success, torch.minimum(s.high, s.c), s.high)
        w = self._variable(task)
        return attrs.evolve(
            s,
            w=w,
            m=torch.zeros_like(w),
            v=torch.zeros_like(w),
            c=torch.where(torch.isfinite(high), (low + high) / 2, s.c * 10),
            low=low,
            high=high,
            success=torch.zeros_like(s.success),
        )

    @staticmethod
    def _variable(task: Task) -> Tensor:
        low, high = task.ball.bounds
        return torch.atanh(((task.x.double() - low) / (high - low) * 2 - 1) * _INSIDE)
