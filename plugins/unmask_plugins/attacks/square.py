"""The Square Attack."""

from __future__ import annotations

import math

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import Task
from unmask_kernels.squares import corners, hills, move_mass, paint_squares, stripes
from unmask_plugins.attacks.ball_and_box import project_both
from unmask_plugins.attacks.losses import LossName, loss_named
from unmask_plugins.attacks.validation import at_least

__all__ = ["Square"]

_HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""Of 10,000 iterations, those after which the share of the image that is painted over halves."""

_AHEAD = 64
"""Proposals whose random numbers are drawn together."""

_TILES = 5
"""Squares along a side of the first point in l2 and l1."""


@attrs.frozen
class Square:
    """Square Attack (Andriushchenko et al. 2020, algorithm 1): random search by scores alone.

    linf: algorithm 2 paints a square at a corner of ball and box. l2: algorithm 3 moves mass from one square
    to another. l1: the same with the l1 norm, projected onto ball and box together (Croce & Hein 2021, "Mind
    the box", section 4).

    Attributes:
        queries: N, forward passes of each run, the first point's included.
        restarts: Runs.
        share: p, the share of the image that the first squares cover.
        loss: What is climbed: ``margin``, ``ce`` or ``dlr``.
        eot: Draws that the loss of each candidate is averaged over; where the members of a randomised model
            can be enumerated, their mean is taken instead. (Croce & Hein 2020 describe it, section 5.)
    """

    queries: int = attrs.field(default=5000, validator=at_least(1))
    restarts: int = attrs.field(default=1, validator=at_least(1))
    share: float = 0.8
    loss: LossName = attrs.field(default="margin", validator=attrs.validators.in_(("ce", "margin", "dlr")))
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
            loss: Its loss, to be climbed.
            i: Iteration.
            lower: linf: the lowest point of ball and box.
            upper: linf: the highest.
            drawn: linf: random words of 31 bits for the next proposals, int64 [sample, proposal, word]: row,
                column, signs.
        """

        x: Tensor
        loss: Tensor
        i: int
        lower: Tensor | None = None
        upper: Tensor | None = None
        drawn: Tensor | None = None

    def start(self, task: Task) -> State:
        """linf: vertical stripes one pixel wide at random corners. l2, l1: a grid of hills."""
        if task.ball.norm != "linf":
            x = self._brought_back(task, self._tiles(task))
            return self.State(x, self._loss(task, x), 0)
        lower, upper = corners(task.x, task.ball.ε, *task.ball.bounds)
        _, channels, _, width = task.x.shape
        x = stripes(lower, upper, task.random.signs((channels, width)))
        return self.State(x, self._loss(task, x), 0, lower, upper)

    def step(self, task: Task, state: State) -> State:
        """A proposal in a random square; kept where the loss rises."""
        if task.ball.norm == "linf" and state.i % _AHEAD == 0:
            words = 2 + -(-state.x.shape[1] // 31)
            state = attrs.evolve(state, drawn=task.random.integers(0, 2**31, (_AHEAD, words)))
        x = self._painted(state) if task.ball.norm == "linf" else self._moved(task, state)
        loss = self._loss(task, x)
        better = loss > state.loss
        return attrs.evolve(
            state,
            x=torch.where(better[:, None, None, None], x, state.x),
            loss=torch.where(better, loss, state.loss),
            i=state.i + 1,
        )

    def side(self, i: int, height: int, width: int, *, least: int = 1) -> int:
        """The square's side in iteration `i`: its area is a share of the image that halves over time."""
        scaled = i / max(self.queries, 1) * 10_000
        share = self.share / 2 ** sum(scaled > after for after in _HALVINGS)
        return min(max(round(math.sqrt(share * height * width)), least), height, width)

    def _painted(self, state: State) -> Tensor:
        """Algorithm 2."""
        n, channels, height, width = state.x.shape
        s = self.side(state.i, height, width)
        side = torch.full((n,), s, dtype=torch.int64, device=state.x.device)
        assert state.lower is not None
        assert state.upper is not None
        assert state.drawn is not None
        words = state.drawn[:, state.i % _AHEAD]
        # By multiply and shift (Lemire 2019); a place's probability is off by at most 2**-31.
        top = (words[:, 0] * (height - s + 1)) >> 31
        left = (words[:, 1] * (width - s + 1)) >> 31
        bits = (words[:, 2:, None] >> torch.arange(31, device=words.device)) & 1
        signs = bits.flatten(1)[:, :channels] * 2 - 1
        return paint_squares(state.x, state.lower, state.upper, top, left, side, signs)

    def _moved(self, task: Task, state: State) -> Tensor:
        """Algorithm 3."""
        _, channels, height, width = state.x.shape
        s = self.side(state.i, height, width, least=3)
        # Odd, so that a hill has a summit.
        s = min(s + 1 - s % 2, height, width)
        top, from_top = (task.random.integers(0, height - s + 1) for _ in range(2))
        left, from_left = (task.random.integers(0, width - s + 1) for _ in range(2))
        delta = (state.x - task.x).double()
        radius = torch.full_like(delta[:, 0, 0, 0], task.ball.ε)
        order = 1 if task.ball.norm == "l1" else 2
        pattern = self._hills(task, s, channels)
        moved = move_mass(delta, pattern, top, left, from_top, from_left, radius, order)
        return self._brought_back(task, moved)

    @staticmethod
    def _hills(task: Task, side: int, channels: int) -> Tensor:
        """Hills one above or beside the other, with a sign for each channel; [sample, channel, side,
        side].
        """
        one = hills(side, task.ball.norm).to(task.x.device)
        beside = task.random.signs() > 0
        signs = task.random.signs((channels,)).double()
        pattern = torch.where(beside[:, None, None], one.T, one)
        return pattern[:, None] * signs[:, :, None, None]

    def _tiles(self, task: Task) -> Tensor:
        """A grid of hills, with what is left over spread to both ends."""
        _, channels, height, width = task.x.shape
        s = max(1, min(height, width) // _TILES)
        delta = torch.zeros_like(task.x, dtype=torch.float64)
        for top in range(height % s // 2, height - s + 1, s):
            for left in range(width % s // 2, width - s + 1, s):
                delta[:, :, top : top + s, left : left + s] = self._hills(task, s, channels)
        return delta

    @staticmethod
    def _brought_back(task: Task, delta: Tensor) -> Tensor:
        """A perturbation stretched to the radius, and brought into ball and box."""
        ball = task.ball
        length = ball.kernels.norms(delta, ball.norm).clamp_min(1e-300)
        x = (task.x.double() + delta * (ball.ε / length)[:, None, None, None]).to(task.x.dtype)
        if ball.norm == "l1":
            return project_both(x, ball, around=task.x)
        return ball.project(x, around=task.x)

    def _loss(self, task: Task, x: Tensor) -> Tensor:
        loss = loss_named(self.loss)
        with torch.no_grad():
            if self.eot == 1:
                return loss(task.target(x), task.goals)
            members = task.target.members
            if members is not None:
                return sum(
                    (p * loss(member(x), task.goals) for p, member in members), torch.zeros(len(x)).to(x)
                )
            return torch.stack([loss(task.target(x), task.goals) for _ in range(self.eot)]).mean(0)
