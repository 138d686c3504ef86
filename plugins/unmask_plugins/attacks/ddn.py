"""Decoupled direction and norm."""

from __future__ import annotations

import math

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import GradientSource, Task
from unmask_plugins.attacks.aims import reached, wide
from unmask_plugins.attacks.losses import LossName, loss_named
from unmask_plugins.attacks.validation import at_least, between, positive
from unmask_plugins.gradients.autograd import Autograd

__all__ = ["DDN"]


@attrs.frozen
class DDN:
    """Decoupled direction and norm, l2 (Rony et al. 2019, algorithm 1).

    Follows the gradient's direction while the perturbation is kept at a length of its own, which shrinks
    where the point is adversarial and grows where it is not.

    Attributes:
        steps: K, iterations.
        gamma: γ, by which share the length changes.
        start_length: ε_0, the first length, as a share of the range of pixel values.
        levels: Round every point to this many evenly spaced pixel values, as the paper does with 256; None:
            do not round.
        loss: What is climbed: ``ce`` (the paper's), ``margin`` or ``dlr``.
        gradient: Where the direction comes from.
    """

    steps: int = attrs.field(default=1000, validator=at_least(1))
    gamma: float = attrs.field(default=0.05, validator=between(0, 1))
    start_length: float = attrs.field(default=1.0, validator=positive)
    levels: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(2)))
    loss: LossName = attrs.field(default="ce", validator=attrs.validators.in_(("ce", "margin", "dlr")))
    gradient: GradientSource = attrs.field(factory=Autograd)

    @attrs.frozen
    class State:
        """Algorithm 1's variables.

        Attributes:
            x: The closest adversarial point, the image where there is none.
            size: Its distance, inf where there is none.
            point: x_k.
            ε: Length of the perturbation.
            k: Steps made.
        """

        x: Tensor
        size: Tensor
        point: Tensor
        ε: Tensor
        k: int = 0

    def start(self, task: Task) -> State:
        """The images."""
        low, high = task.ball.bounds
        size = torch.full((len(task),), torch.inf, dtype=torch.float64, device=task.x.device)
        return self.State(task.x, size, task.x, torch.full_like(size, self.start_length * (high - low)))

    def step(self, task: Task, state: State) -> State:
        """Lines 4 to 14: look, turn, shorten or lengthen."""
        s, ball = state, task.ball
        slope = self.gradient(task, s.point, loss_named(self.loss))
        adversarial = reached(slope.logits, task)
        distance = ball.distance(s.point, task.x)
        closer = adversarial & (distance < s.size)
        low, high = ball.bounds
        # α falls from 1 to 0.01 along a cosine.
        α = (0.01 + 0.99 * (1 + math.cos(math.pi * s.k / self.steps)) / 2) * (high - low)
        δ = (s.point - task.x).double() + α * self._direction(task, slope.gradient).double()
        ε = s.ε * torch.where(adversarial, 1 - self.gamma, 1 + self.gamma)
        length = torch.linalg.vector_norm(δ.flatten(1), dim=1).clamp_min(1e-300)
        point = (task.x.double() + δ * wide(ε / length)).clamp(low, high)
        if self.levels is not None:
            unit = (high - low) / (self.levels - 1)
            point = (((point - low) / unit).round() * unit + low).clamp(low, high)
        return self.State(
            x=torch.where(wide(closer), s.point, s.x),
            size=torch.where(closer, distance, s.size),
            point=point.to(task.x.dtype),
            ε=ε,
            k=s.k + 1,
        )

    @staticmethod
    def _direction(task: Task, gradient: Tensor) -> Tensor:
        """The gradient's direction; a random one where it is zero."""
        direction = task.ball.steepest(gradient)
        flat = (direction == 0).flatten(1).all(1).nonzero().squeeze(1)
        if len(flat) == 0:
            return direction
        # Of these rows' own streams alone: what the others draw must not depend on them.
        drawn = task.random.select(flat).normal(tuple(gradient.shape[1:]))
        return direction.index_copy(0, flat, task.ball.steepest(drawn).to(direction.dtype))
