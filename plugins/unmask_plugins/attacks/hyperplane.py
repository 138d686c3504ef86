"""The shortest way to a hyperplane inside the box."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["shortest_step"]


def shortest_step(x: Tensor, w: Tensor, gain: Tensor, norm: str, bounds: tuple[float, float]) -> Tensor:
    """The smallest d with <w, d> = gain and x + d in the box (Croce & Hein 2020, FAB, section 2.1).

    Every coordinate moves in the direction that helps, at most to the border of the box. linf: all by the
    same amount t. l2: each by t |w|. l1: those of largest |w| first, each as far as it goes. What is gained
    rises with t, linearly between the amounts at which one coordinate after the other meets the border; so
    sorting these finds t. Where even the farthest corner gains too little, d leads there. Coordinates with
    w = 0 stay.

    Args:
        x: [sample, ...], inside the box.
        w: Normal of the hyperplane, the same shape.
        gain: float64 [sample].
        norm: ``linf``, ``l2`` or ``l1``.
        bounds: The box.
    """
    low, high = bounds
    flat = x.flatten(1).double()
    slope = torch.nan_to_num(w.flatten(1).double(), nan=0.0) * gain.sign()[:, None]
    size = slope.abs()
    room = torch.where(slope > 0, high - flat, flat - low).clamp_min(0.0)
    wanted = gain.abs()[:, None]
    length = _greedy(size, room, wanted) if norm == "l1" else _even(size, room, wanted, norm)
    return (length * slope.sign()).reshape(x.shape)


def _even(size: Tensor, room: Tensor, wanted: Tensor, norm: str) -> Tensor:
    """linf and l2: how far every coordinate goes, min(t v, room)."""
    pace = (size > 0).double() if norm == "linf" else size
    # Those that never move never meet the border either.
    meets = torch.where(pace > 0, room / pace.clamp_min(torch.finfo(pace.dtype).tiny), torch.inf)
    meets, order = meets.sort(dim=1, stable=True)
    rate = (size * pace).gather(1, order)
    full = (size * room).gather(1, order)
    done = full.cumsum(1) - full
    still = rate.flip(1).cumsum(1).flip(1)
    # What is gained when t is the amount at which coordinate j meets the border.
    finite = torch.where(torch.isfinite(meets), meets, 0.0)
    gained = torch.where(torch.isfinite(meets), done + finite * still, torch.inf)
    piece = (gained < wanted).sum(1, keepdim=True).clamp_max(size.shape[1] - 1)
    t = (wanted - done.gather(1, piece)) / still.gather(1, piece).clamp_min(torch.finfo(size.dtype).tiny)
    reachable = wanted <= full.sum(1, keepdim=True)
    way = torch.minimum(t * pace, room)
    return torch.where(reachable, way, room * (size > 0))


def _greedy(size: Tensor, room: Tensor, wanted: Tensor) -> Tensor:
    """l1: how far every coordinate goes, the most rewarding first."""
    order = size.argsort(dim=1, descending=True, stable=True)
    reward, way = size.gather(1, order), room.gather(1, order)
    before = (reward * way).cumsum(1) - reward * way
    missing = (wanted - before).clamp_min(0.0)
    gone = torch.minimum(way, torch.where(reward > 0, missing / reward.clamp_min(1e-300), 0.0))
    return torch.empty_like(gone).scatter_(1, order, gone)
