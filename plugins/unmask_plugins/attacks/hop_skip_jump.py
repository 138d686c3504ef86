"""HopSkipJump."""

from __future__ import annotations

import math

import attrs
import torch
from torch import Tensor

from unmask.data import DataReference
from unmask.evaluation.task import Task
from unmask_plugins.attacks.aims import fooled, reached, wide
from unmask_plugins.attacks.labels_only import first_adversarial, to_boundary
from unmask_plugins.attacks.validation import at_least, positive

__all__ = ["HopSkipJump"]

_CHUNK = 2**18
"""Pixel values of the probes that one sample has in a batch: by the image's size alone, so that no sample's
probes depend on how many others there are."""

_HALVINGS = 30
"""Of a jump's length before it is given up."""


@attrs.frozen
class HopSkipJump:
    """HopSkipJumpAttack (Chen, Jordan & Wainwright 2020, algorithm 2); linf and l2, by predicted classes
    alone.

    At a point on the boundary the normal is estimated from the side on which random neighbours lie; from
    there a jump along it, as long as it stays adversarial, and back to the boundary by bisection.

    Attributes:
        steps: T, iterations.
        restarts: Runs, each from another first point.
        evaluations: B_0, neighbours of the first estimate; in iteration t it is B_0 √t.
        most_evaluations: Neighbours of one estimate at most.
        gamma: γ, which sets how far bisection goes: to γ / d^(3/2) of the way in l2, γ / d^2 in linf.
        tries: Images tried for a first adversarial point; a sample for which all fail is left alone.
        starts: Where they are from: a data set. Of it a sample draws images of its target, or in an
            untargeted run of any class but its own. None: uniform noise, which is seldom classified as a
            target.
    """

    steps: int = attrs.field(default=50, validator=at_least(1))
    restarts: int = attrs.field(default=1, validator=at_least(1))
    evaluations: int = attrs.field(default=100, validator=at_least(1))
    most_evaluations: int = attrs.field(default=10_000, validator=at_least(1))
    gamma: float = attrs.field(default=1.0, validator=positive)
    tries: int = attrs.field(default=50, validator=at_least(1))
    starts: DataReference | None = None

    @attrs.frozen
    class State:
        """Where the search is.

        Attributes:
            x: The closest point on the boundary, the image where none was found.
            size: Its distance.
            point: x_t, the present one.
            found: There is one.
            t: Iteration.
        """

        x: Tensor
        size: Tensor
        point: Tensor
        found: Tensor
        t: int = 0

    def start(self, task: Task) -> State:
        """A first adversarial image, brought to the boundary."""
        x, found = first_adversarial(task, self.tries, self.starts)
        rows = found.nonzero().squeeze(1)
        x = x.index_copy(0, rows, to_boundary(task.select(rows), x[rows], self._tolerance(task)))
        size = torch.where(found, task.ball.distance(x, task.x), torch.inf)
        return self.State(x, size, x, found)

    def step(self, task: Task, state: State) -> State:
        """Estimate, jump, go back to the boundary."""
        t = state.t + 1
        rows = state.found.nonzero().squeeze(1)
        part, point = task.select(rows), state.point[rows]
        distance = task.ball.distance(point, part.x)
        v = self._normal(part, point, distance, t)
        point = to_boundary(
            part, self._jumped(part, point, v, distance / math.sqrt(t)), self._tolerance(task)
        )
        size = task.ball.distance(point, part.x)
        closer = size < state.size[rows]
        return self.State(
            x=state.x.index_copy(0, rows, torch.where(wide(closer), point, state.x[rows])),
            size=state.size.index_copy(0, rows, torch.where(closer, size, state.size[rows])),
            point=state.point.index_copy(0, rows, point),
            found=state.found,
            t=t,
        )

    def _normal(self, task: Task, point: Tensor, distance: Tensor, t: int) -> Tensor:
        """Equation 16: the mean of random directions, each with the sign of the side it leads to.

        The mean of the signs is taken off, which lessens the variance where most are alike.
        """
        n, shape = len(point), tuple(point.shape[1:])
        count = min(round(self.evaluations * math.sqrt(t)), self.most_evaluations)
        radius = self._probe_radius(task, distance, t)
        low, high = task.ball.bounds
        at_once = max(1, min(count, _CHUNK // max(1, math.prod(shape))))
        signed = torch.zeros(point.shape, dtype=torch.float64, device=point.device)
        plain, total = signed.clone(), torch.zeros(n, dtype=torch.float64, device=point.device)
        for first in range(0, count, at_once):
            some = min(at_once, count - first)
            u = self._directions(task, (some, *shape))
            probes = point[:, None].double() + radius.reshape(-1, 1, 1, 1, 1) * u
            probes = probes.clamp(low, high).to(point.dtype)
            # What the box left of the direction.
            u = (probes.double() - point[:, None].double()) / radius.reshape(-1, 1, 1, 1, 1).clamp_min(1e-300)
            many = task.select(torch.arange(n, device=point.device).repeat_interleave(some))
            with torch.no_grad():
                hit = reached(many.target(probes.flatten(0, 1)), many)
            φ = hit.double().reshape(n, some) * 2 - 1
            signed += (φ.reshape(n, some, 1, 1, 1) * u).sum(1)
            plain += u.sum(1)
            total += φ.sum(1)
        mean = total / count
        # Where all lie on one side there is no difference to look at: their mean direction, or its opposite.
        alike = mean.abs() == 1
        v = torch.where(wide(alike), signed, signed - wide(mean) * plain)
        return task.ball.steepest(v)

    @staticmethod
    def _directions(task: Task, shape: tuple[int, ...]) -> Tensor:
        if task.ball.norm == "linf":
            return task.random.uniform(shape, -1.0, 1.0).double()
        u = task.random.normal(shape).double()
        length: Tensor = torch.linalg.vector_norm(u.flatten(2), dim=2).clamp_min(1e-300)
        return u / length[:, :, None, None, None]

    def _jumped(self, task: Task, point: Tensor, v: Tensor, length: Tensor) -> Tensor:
        """Geometric progression: half the way, and half of that, until it is adversarial."""
        low, high = task.ball.bounds
        jumped, standing = point.clone(), torch.arange(len(point), device=point.device)
        for _ in range(_HALVINGS):
            if len(standing) == 0:
                break
            part = task.select(standing)
            ahead = point[standing].double() + wide(length[standing]) * v[standing].double()
            ahead = ahead.clamp(low, high).to(point.dtype)
            hit = fooled(part, ahead)
            jumped[standing[hit]] = ahead[hit]
            standing = standing[~hit]
            length = length / 2
        return jumped

    def _probe_radius(self, task: Task, distance: Tensor, t: int) -> Tensor:
        """Section 4.1.3: in proportion to what bisection leaves uncertain; at first a tenth of the range."""
        low, high = task.ball.bounds
        if t == 1:
            return torch.full_like(distance, 0.1 * (high - low))
        d = task.x[0].numel() if len(task) else 1
        return (math.sqrt(d) if task.ball.norm == "l2" else d) * self._tolerance(task) * distance

    def _tolerance(self, task: Task) -> float:
        d = task.x[0].numel() if len(task) else 1
        share: float = self.gamma / d ** (1.5 if task.ball.norm == "l2" else 2.0)
        return max(share, 2.0**-20)
