"""Auto-PGD's steps in l1: few coordinates at a time."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import Slope, Task
from unmask.evaluation.threat import Ball
from unmask_plugins.attacks.aims import wide
from unmask_plugins.attacks.ball_and_box import project_both

__all__ = ["State", "start", "step"]

_FIRST_SHARE = 0.2
"""Share of the coordinates that the first steps move."""


@attrs.frozen
class State:
    """Variables of Croce & Hein (2021), "Mind the box", algorithm 1.

    Attributes:
        x: x_max within ε, the example so far.
        best: x_max, within the present radius.
        f_max: The loss there.
        g_max: The gradient there.
        point: x(i).
        g: The gradient at x(i).
        η: Step size.
        share: k / d, the share of the coordinates that a step moves.
        support: ‖x_max - x‖_0 at the last checkpoint.
        towards: The classes that the run is directed at; None: away from the label.
        phases: Radius and number of steps of each phase; the last radius is ε.
        phase: The present one.
        i: Steps made in it.
    """

    x: Tensor
    best: Tensor
    f_max: Tensor
    g_max: Tensor
    point: Tensor
    g: Tensor
    η: Tensor
    share: Tensor
    support: Tensor
    towards: Tensor | None
    phases: tuple[tuple[float, int], ...]
    phase: int = 0
    i: int = 0


Ascent = Callable[[Task, Tensor | None, Tensor], Slope]
"""Task, targets and points to loss and gradient."""


def start(task: Task, towards: Tensor | None, steps: int, multi_epsilon: bool, ascent: Ascent) -> State:
    """Normal noise, projected onto the first phase's ball and the box.

    Such a point lies on few coordinates, other ones in each run; uniform points of the ball are all close to
    the image.
    """
    ε = task.ball.ε
    phases: tuple[tuple[float, int], ...] = ((ε, steps),)
    if multi_epsilon and steps >= 3:
        third = -(-3 * steps // 10)
        phases = ((3 * ε, third), (2 * ε, third), (ε, steps - 2 * third))
    ball = _ball(task, phases[0][0])
    noise = task.random.normal(tuple(task.x.shape[1:])).to(task.x.dtype)
    x = project_both(task.x + noise, ball, around=task.x)
    share = torch.full_like(x[:, 0, 0, 0], _FIRST_SHARE, dtype=torch.float64)
    support = torch.full_like(share, x[0].numel() if len(x) else 1)
    return _begun(task, x, towards, share, support, phases, 0, ascent)


def _begun(
    task: Task,
    x: Tensor,
    towards: Tensor | None,
    share: Tensor,
    support: Tensor,
    phases: tuple[tuple[float, int], ...],
    phase: int,
    ascent: Ascent,
) -> State:
    slope = ascent(task, towards, x)
    return State(
        x=_example(task, x),
        best=x,
        f_max=slope.loss,
        g_max=slope.gradient,
        point=x,
        g=slope.gradient,
        η=torch.full_like(slope.loss, phases[phase][0]),
        share=share,
        support=support,
        towards=towards,
        phases=phases,
        phase=phase,
    )


def step(task: Task, s: State, ascent: Ascent) -> State:
    """One sparse step; every 4 % of the steps, sparsity and step size follow what x_max looks like."""
    if s.i == s.phases[s.phase][1]:
        s = _next_phase(task, s, ascent)
    radius, steps = s.phases[s.phase]
    ball = _ball(task, radius)
    point = project_both(s.point + wide(s.η) * _sparse(s.g, s.share), ball, around=task.x)
    slope = ascent(task, s.towards, point)
    better = slope.loss > s.f_max
    best = torch.where(wide(better), point, s.best)
    s = attrs.evolve(
        s,
        x=_example(task, best),
        best=best,
        f_max=torch.where(better, slope.loss, s.f_max),
        g_max=torch.where(wide(better), slope.gradient, s.g_max),
        point=point,
        g=slope.gradient,
        i=s.i + 1,
    )
    return _reconsidered(task, s, radius) if s.i % max(steps // 25, 1) == 0 else s


def _reconsidered(task: Task, s: State, radius: float) -> State:
    support = _support(task, s.best)
    sparser = support < 0.95 * s.support
    return attrs.evolve(
        s,
        share=_share(task, support),
        support=support,
        η=torch.where(sparser, radius, (s.η / 1.5).clamp_min(radius / 10)),
        point=torch.where(wide(sparser), s.best, s.point),
        g=torch.where(wide(sparser), s.g_max, s.g),
    )


def _next_phase(task: Task, s: State, ascent: Ascent) -> State:
    """On from x_max, brought into the next smaller ball."""
    phase = s.phase + 1
    x = project_both(s.best, _ball(task, s.phases[phase][0]), around=task.x)
    support = _support(task, x)
    return _begun(task, x, s.towards, _share(task, support), support, s.phases, phase, ascent)


def _sparse(g: Tensor, share: Tensor) -> Tensor:
    """The sign on the largest entries of the gradient, scaled to unit l1 norm."""
    flat = g.flatten(1)
    size = flat.shape[1]
    # To the nearest number, so that a search on two coordinates comes down to one.
    count = (share * size).round().clamp(1, size).to(torch.int64)
    order = flat.abs().argsort(dim=1, descending=True, stable=True)
    rank = torch.empty_like(order).scatter_(
        1, order, torch.arange(size, device=g.device).expand_as(order).contiguous()
    )
    signs = flat.sign() * (rank < count[:, None])
    return (signs / signs.abs().sum(1, keepdim=True).clamp_min(1.0)).reshape(g.shape)


def _support(task: Task, x: Tensor) -> Tensor:
    return (x != task.x).flatten(1).sum(1).double()


def _share(task: Task, support: Tensor) -> Tensor:
    return support / task.x[0].numel() / 1.5 if len(task) else support


def _example(task: Task, x: Tensor) -> Tensor:
    return project_both(x, task.ball, around=task.x)


def _ball(task: Task, radius: float) -> Ball:
    return attrs.evolve(task.ball, epsilon=radius)
