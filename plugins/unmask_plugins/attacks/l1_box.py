"""The nearest point of an l1 ball and the box together."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.evaluation.threat import Ball

__all__ = ["project_l1_box"]


def project_l1_box(points: Tensor, ball: Ball, *, around: Tensor) -> Tensor:
    """Euclidean projection onto an l1 ball cut by the box (Croce & Hein 2021, proposition 1).

    Of a point x + y the projection is x + sign(y) min(max(|y| - λ, 0), u), where u is the way to the border
    of the box in y's direction and λ >= 0 the smallest number for which the whole is no longer than ε. The
    length falls with λ, linearly between the points |y| - u and |y|; so sorting these finds λ.

    Args:
        points: [sample, ...].
        ball: Norm l1; gives radius and box.
        around: The clean images.
    """
    x, y = around.flatten(1).double(), (points.double() - around.double()).flatten(1)
    low, high = ball.bounds
    size = y.abs()
    room = torch.where(y > 0, high - x, x - low).clamp_min(0.0)
    # From the first of its two points on a coordinate shrinks, from the second on it is zero.
    turns = torch.cat([(size - room).clamp_min(0.0), size], 1)
    slopes = torch.cat([-torch.ones_like(size), torch.ones_like(size)], 1)
    turns, order = turns.sort(dim=1, stable=True)
    slopes = slopes.gather(1, order).cumsum(1)
    whole = torch.minimum(size, room).sum(1, keepdim=True)
    gaps = turns.diff(dim=1, append=turns[:, -1:])
    lengths = whole + torch.cat([torch.zeros_like(whole), (slopes * gaps).cumsum(1)[:, :-1]], 1)
    # lengths[j] is the length at λ = turns[j]; from the last that is too long the solution is not far.
    piece = ((lengths > ball.epsilon).sum(1, keepdim=True) - 1).clamp_min(0)
    excess = lengths.gather(1, piece) - ball.epsilon
    λ = turns.gather(1, piece) + excess / -slopes.gather(1, piece).clamp_max(-1.0)
    λ = torch.where(whole > ball.epsilon, λ, 0.0)
    moved = torch.minimum((size - λ).clamp_min(0.0), room) * y.sign()
    nearest = (x + moved).reshape(points.shape).to(points.dtype)
    return ball.project(nearest, around=around)
