"""The nearest point of ball and box together."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.evaluation.threat import Ball

__all__ = ["project_both", "within_both"]


def project_both(points: Tensor, ball: Ball, *, around: Tensor) -> Tensor:
    """Euclidean projection onto a ball cut by the box, which is what papers write P_S for.

    `Ball.project` goes to the ball and from there to the box, which in l2 and l1 is a point of both but not
    the nearest one: the box takes away what the ball allows, and a search whose image lies at the border of
    the box stops short of the best point. In linf both are the same.

    Args:
        points: [sample, ...].
        ball: Gives norm, radius and box.
        around: The clean images.
    """
    if ball.norm not in ("l2", "l1"):
        return ball.project(points, around=around)
    radii = torch.full((len(points),), ball.epsilon, dtype=torch.float64, device=points.device)
    nearest = within_both(points.double() - around.double(), radii, ball, around=around)
    return ball.project(nearest.to(points.dtype), around=around)


def within_both(δ: Tensor, radii: Tensor, ball: Ball, *, around: Tensor) -> Tensor:
    """The nearest point to x + δ of the box and an l2 or l1 ball of each sample's own radius, float64.

    Args:
        δ: float64 [sample, ...].
        radii: float64 [sample], 0 to infinity.
        ball: Gives norm (``l2`` or ``l1``) and box; its own radius plays no part.
        around: The clean images x.
    """
    x, y = around.flatten(1).double(), δ.flatten(1)
    low, high = ball.bounds
    room = torch.where(y > 0, high - x, x - low).clamp_min(0.0)
    moved = (_nearest_l1 if ball.norm == "l1" else _nearest_l2)(y.abs(), room, radii[:, None])
    return (x + moved * y.sign()).reshape(δ.shape)


def _nearest_l1(size: Tensor, room: Tensor, ε: Tensor) -> Tensor:
    """l1 (Croce & Hein 2021, "Mind the box", proposition 1): min(max(|y| - λ, 0), u).

    u is the way to the border of the box and λ >= 0 the smallest number for which the whole is no longer than
    ε. The length falls with λ, linearly between the points |y| - u and |y|; so sorting these finds λ.
    """
    # From the first of its two points on a coordinate shrinks, from the second on it is zero.
    turns = torch.cat([(size - room).clamp_min(0.0), size], 1)
    slopes = torch.cat([-torch.ones_like(size), torch.ones_like(size)], 1)
    turns, order = turns.sort(dim=1, stable=True)
    slopes = slopes.gather(1, order).cumsum(1)
    whole = torch.minimum(size, room).sum(1, keepdim=True)
    gaps = turns.diff(dim=1, append=turns[:, -1:])
    lengths = whole + torch.cat([torch.zeros_like(whole), (slopes * gaps).cumsum(1)[:, :-1]], 1)
    # lengths[j] is the length at λ = turns[j]; from the last that is too long the solution is not far.
    piece = ((lengths > ε).sum(1, keepdim=True) - 1).clamp_min(0)
    excess = lengths.gather(1, piece) - ε
    λ = turns.gather(1, piece) + excess / -slopes.gather(1, piece).clamp_max(-1.0)
    λ = torch.where(whole > ε, λ, 0.0)
    return torch.minimum((size - λ).clamp_min(0.0), room)


def _nearest_l2(size: Tensor, room: Tensor, ε: Tensor) -> Tensor:
    """l2, from the conditions of Karush, Kuhn and Tucker: min(s |y|, u).

    s is the largest number, at most 1, for which the whole is no longer than ε. The squared length rises with
    s, in proportion to s^2 between the points u / |y| at which a coordinate meets the border; so sorting
    these finds s.
    """
    meets, order = (room / size.clamp_min(1e-300)).sort(dim=1, stable=True)
    stopped = room.gather(1, order).square().cumsum(1)
    pace = size.gather(1, order).square()
    going = pace.flip(1).cumsum(1).flip(1) - pace
    lengths = stopped + meets.square() * going
    # lengths[j] is the squared length at s = meets[j]; from the last that is short enough s goes on.
    count = ((lengths <= ε**2) & torch.isfinite(lengths)).sum(1, keepdim=True)
    last = (count - 1).clamp_min(0)
    before = torch.where(count > 0, stopped.gather(1, last), 0.0)
    after = torch.where(count > 0, going.gather(1, last), pace.sum(1, keepdim=True))
    s = ((ε**2 - before).clamp_min(0.0) / after.clamp_min(1e-300)).sqrt().clamp_max(1.0)
    return torch.minimum(s * size, room)
