"""The Square Attack."""

from __future__ import annotations

import math

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import Task
from unmask_kernels.losses import margin
from unmask_kernels.squares import corners, paint_squares, stripes
from unmask_plugins.attacks.validation import at_least

__all__ = ["Square"]

_HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""Of 10,000 iterations, those after which the share of the image that is painted over halves."""


@attrs.frozen
class Square:
    """Square Attack, linf (Andriushchenko et al. 2020, algorithms 1 and 2): random search by scores alone.

    Attributes:
        queries: N, forward passes of each run, the first point's included.
        restarts: Runs.
        share: p, the share of the image that the first squares cover.
        eot: Draws that the loss of each candidate is averaged over; where the members of a randomised model
            can be enumerated, their mean is taken instead. (Croce & Hein 2020 describe it, section 5.)
    """

    queries: int = attrs.field(default=5000, validator=at_least(1))
    restarts: int = attrs.field(default=1, validator=at_least(1))
    share: float = 0.8
    eot: int = attrs.field(default=1, validator=at_least(1))

    def __attrs_post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, not {self.share}")

    @property
    def steps(self) -> int:
        """Candidates after the first point."""
        return self.queries - 1

    @attrs.frozen
    class State:
        """Algorithm 1's variables.

        Attributes:
            x: The best point of every sample.
            loss: Its margin loss, to be climbed.
            lower: The lowest point of ball and box.
            upper: The highest.
            i: Iteration.
        """

        x: Tensor
        loss: Tensor
        lower: Tensor
        upper: Tensor
        i: int

    def start(self, task: Task) -> State:
        """Vertical stripes of one pixel's width at random corners."""
        lower, upper = corners(task.x, task.ball.ε, *task.ball.bounds)
        _, channels, _, width = task.x.shape
        x = stripes(lower, upper, task.random.signs((channels, width)))
        return self.State(x, self._loss(task, x), lower, upper, 0)

    def step(self, task: Task, state: State) -> State:
        """Paint one square at a random corner; keep it where the loss rises."""
        n, channels, height, width = state.x.shape
        s = self.side(state.i, height, width)
        top = task.random.integers(0, height - s + 1)
        left = task.random.integers(0, width - s + 1)
        side = torch.full((n,), s, dtype=torch.int64, device=state.x.device)
        signs = task.random.signs((channels,))
        x = paint_squares(state.x, state.lower, state.upper, top, left, side, signs)
        loss = self._loss(task, x)
        better = loss > state.loss
        return attrs.evolve(
            state,
            x=torch.where(better[:, None, None, None], x, state.x),
            loss=torch.where(better, loss, state.loss),
            i=state.i + 1,
        )

    def side(self, i: int, height: int, width: int) -> int:
        """The square's side in iteration `i`: its area is a share of the image that halves over time."""
        scaled = i / max(self.queries, 1) * 10_000
        share = self.share / 2 ** sum(scaled > after for after in _HALVINGS)
        return min(max(round(math.sqrt(share * height * width)), 1), height, width)

    def _loss(self, task: Task, x: Tensor) -> Tensor:
        with torch.no_grad():
            if self.eot == 1:
                return margin(task.target(x), task.labels)
            members = task.target.members
            if members is not None:
                return sum(
                    (p * margin(member(x), task.labels) for p, member in members), torch.zeros(len(x)).to(x)
                )
            return torch.stack([margin(task.target(x), task.labels) for _ in range(self.eot)]).mean(0)
