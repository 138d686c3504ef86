"""Fast minimum-norm attack."""

from __future__ import annotations

import math

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import GradientSource, Task
from unmask_kernels.radii import shrink
from unmask_plugins.attacks.aims import reached, wide
from unmask_plugins.attacks.ball_and_box import within_both
from unmask_plugins.attacks.losses import loss_named
from unmask_plugins.attacks.validation import at_least, between, positive_or_none
from unmask_plugins.gradients.autograd import Autograd

__all__ = ["FMN"]

_DUAL = {"linf": 1.0, "l2": 2.0, "l1": math.inf}
_FIRST_STEP = {"linf": 10.0, "l2": 1.0, "l1": 1.0, "l0": 10.0}


@attrs.frozen
class FMN:
    """Fast minimum-norm attack (Pintor et al. 2021, algorithm 1); linf, l2, l1 and l0.

    Climbs the margin within a ball of a radius of its own: before the first success the estimated distance of
    the boundary, then smaller where the point is adversarial and larger where it is not, by less and less.

    In l0 the distance is the number of pixel values that differ, each channel's own, and a radius changes by
    at least one. The boundary's distance is estimated by the fewest values whose way to the border of the box
    gains enough, and the projection is onto ball and box together: by the size of the change alone, as
    published, a value that the box stops early would keep its place before a more rewarding one. In l2 and l1
    too the projection is onto both, and the estimate counts only values that the box lets go on: as
    published, the box takes back what the ball allows, and an image at its border may stay there for good.

    Attributes:
        steps: K, iterations.
        step_size: α_0, l2 length of the first step as a share of the range of pixel values; falls to a
            hundredth along a cosine. Unless given, 1, and in linf and l0 10.
        gamma: γ_0, by which share the radius changes at first.
        gamma_end: γ_K, by which share at last.
        gradient: Where the direction comes from.
    """

    steps: int = attrs.field(default=1000, validator=at_least(1))
    step_size: float | None = attrs.field(default=None, validator=positive_or_none)
    gamma: float = attrs.field(default=0.05, validator=between(0, 1))
    gamma_end: float = attrs.field(default=0.001, validator=between(0, 1))
    gradient: GradientSource = attrs.field(factory=Autograd)

    @attrs.frozen
    class State:
        """Algorithm 1's variables.

        Attributes:
            x: x_0 + δ*, the closest adversarial point, the image where there is none.
            size: Its distance, inf where there is none.
            point: x_0 + δ_k.
            ε: Radius.
            k: Steps made.
        """

        x: Tensor
        size: Tensor
        point: Tensor
        ε: Tensor
        k: int = 0

    def start(self, task: Task) -> State:
        """The images, and no radius yet."""
        size = torch.full((len(task),), torch.inf, dtype=torch.float64, device=task.x.device)
        return self.State(task.x, size, task.x, size.clone())

    def step(self, task: Task, state: State) -> State:
        """Lines 4 to 15."""
        s, ball = state, task.ball
        slope = self.gradient(task, s.point, loss_named("margin"))
        g = slope.gradient.double().flatten(1)
        distance = ball.distance(s.point, task.x)
        adversarial = reached(slope.logits, task)
        closer = adversarial & (distance < s.size)
        size = torch.where(closer, distance, s.size)

        γ = _cosine(self.gamma, self.gamma_end, s.k, self.steps)
        # A little beyond: on the boundary itself the prediction need not change.
        estimate = (distance + self._to_boundary(task, s.point, g, slope.loss.double().abs())) * (1 + γ)
        outside = torch.where(torch.isfinite(s.size), s.ε * (1 + γ), estimate)
        inside = s.ε * (1 - γ)
        if ball.norm == "l0":
            outside = torch.where(
                torch.isfinite(s.size), torch.maximum(outside.floor(), s.ε + 1), estimate.ceil()
            )
            inside = torch.minimum(inside.floor(), s.ε - 1)
        ε = torch.where(adversarial, torch.minimum(inside, size), outside).nan_to_num(nan=torch.inf)

        low, high = ball.bounds
        first = (self.step_size or _FIRST_STEP[ball.norm]) * (high - low)
        α = _cosine(first, first / 100, s.k, self.steps)
        length = torch.linalg.vector_norm(g, dim=1, keepdim=True)
        direction = (g / length.clamp_min(1e-300)).reshape(s.point.shape)
        δ = (s.point - task.x).double() + α * direction
        if ball.norm == "l0":
            point = _fewest(task, δ, ε)
        elif ball.norm == "linf":
            point = (task.x.double() + shrink(δ, ε, ball.norm)).clamp(low, high)
        else:
            point = within_both(δ, ε, ball, around=task.x)
        return self.State(
            x=torch.where(wide(closer), s.point, s.x),
            size=size,
            point=point.to(task.x.dtype),
            ε=ε,
            k=s.k + 1,
        )

    @staticmethod
    def _to_boundary(task: Task, point: Tensor, g: Tensor, gap: Tensor) -> Tensor:
        """Distance of the linearised boundary."""
        norm = task.ball.norm
        low, high = task.ball.bounds
        x = point.flatten(1).double()
        room = torch.where(g > 0, high - x, x - low).clamp_min(0.0)
        if norm != "l0":
            dual: Tensor = torch.linalg.vector_norm(g * (room > 0), ord=_DUAL[norm], dim=1)
            return gap / dual
        gains = room * g.abs()
        gained = gains.sort(dim=1, descending=True).values.cumsum(1)
        return (gained < gap[:, None]).sum(1).double() + 1


def _fewest(task: Task, δ: Tensor, ε: Tensor) -> Tensor:
    """The nearest point to x + δ in the box that differs from x in at most ε values, float64."""
    low, high = task.ball.bounds
    asked, x = δ.flatten(1), task.x.flatten(1).double()
    moved = (x + asked).clamp(low, high) - x
    worth = torch.nan_to_num(moved * (2 * asked - moved))
    rank = worth.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    point = torch.where(rank < ε.clamp_min(1)[:, None], (x + asked).clamp(low, high), x)
    return point.reshape(task.x.shape)


def _cosine(first: float, last: float, k: int, steps: int) -> float:
    """From `first` to `last` along half a cosine."""
    return last + (first - last) * (1 + math.cos(math.pi * k / steps)) / 2
