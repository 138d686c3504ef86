"""Differences of the loss along random directions, taken on both sides."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from unmask.evaluation.random import SampleRandom
from unmask.evaluation.task import Loss, Slope, Task

__all__ = ["antithetic_slope"]

_CHUNK = 2**18
"""Pixel values of the probes that one sample has in a batch. It depends on nothing but the image's size, so
that no sample's directions depend on how many others there are."""

Draw = Callable[[SampleRandom, tuple[int, ...]], Tensor]


def antithetic_slope(task: Task, x: Tensor, loss: Loss, draw: Draw, samples: int, h: float) -> Slope:
    """Mean over directions v of v (loss(x + h v) - loss(x - h v)) / 2h, and the loss at the point itself.

    Unbiased for affine losses where the directions' second moment is the identity; in general the mean of the
    gradient smoothed along them, up to O(h^2).

    Args:
        task: The samples.
        x: A point for each.
        loss: What is differentiated.
        draw: Random numbers of a shape for each sample: the directions.
        samples: Directions; two forwards each.
        h: Step to each side, in units of a pixel value. Probes may leave the box by as much.
    """
    n, shape = len(x), tuple(x.shape[1:])
    size = x[0].numel() if n else 1
    rows, goals = torch.arange(n, device=x.device), task.goals
    total = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    at_once = max(1, min(samples, _CHUNK // (2 * size)))
    with torch.no_grad():
        logits = task.target(x)
        for first in range(0, samples, at_once):
            count = min(at_once, samples - first)
            v = draw(task.random, (count, *shape)).to(x.dtype)
            shown = torch.stack([x[:, None] + h * v, x[:, None] - h * v], 2).flatten(0, 2)
            named = rows.repeat_interleave(2 * count)
            # In float64: near a confident answer the differences drown in the rounding of a float32 loss.
            values = loss(task.target.select(named)(shown).double(), goals[named]).reshape(n, count, 2)
            slopes = (values[:, :, 0] - values[:, :, 1]) / (2 * h)
            total += (slopes.reshape(n, count, *[1] * len(shape)) * v).sum(1)
        return Slope((total / samples).to(x.dtype), loss(logits, goals), logits)
