"""Finite differences: a gradient from scores alone."""

from __future__ import annotations

from typing import ClassVar, Literal

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import Loss, Slope, Task
from unmask_kernels.finite_differences import (
    block_sizes,
    count_squares,
    probes,
    reduce,
    square_blocks,
)
from unmask_plugins.attacks.validation import at_least, positive_or_none

__all__ = ["FiniteDifference"]

_CHUNK = 2**21
"""Pixel values of one batch of probes: 8 MiB of float32, which a processor's last cache holds."""


@attrs.frozen
class FiniteDifference:
    """Two-sided differences over random blocks of variables (Boytsov et al. 2025, equation 6).

    For every block B the loss is taken at x + h 1_B and x - h 1_B; their difference divided by 2 h |B| is the
    slope of every variable of the block. Exact for affine losses whose gradient is constant on each block; in
    general the mean slope along the block, up to O(h^2). Costs two forwards per block and one at the point.

    Attributes:
        square: Pixels are grouped into squares of this side; those at the border may be partial.
        group: Squares that make one block, chosen at random for every sample and call.
        channels: ``separate``: a square belongs to one channel. ``together``: it spans all of them, at a
            fraction of the cost.
        h: Step to each side, in units of a pixel value. Probes may leave the box by as much.
    """

    square: int = attrs.field(default=1, validator=at_least(1))
    group: int = attrs.field(default=1, validator=at_least(1))
    channels: Literal["separate", "together"] = attrs.field(
        default="separate", validator=attrs.validators.in_(("separate", "together"))
    )
    h: float = attrs.field(default=0.01, validator=positive_or_none)

    access: ClassVar[str] = "scores"

    def __call__(self, task: Task, x: Tensor, loss: Loss) -> Slope:
        """Probes of all samples and blocks in few large batches."""
        with torch.no_grad():
            logits = task.target(x)
            layout = self._layout(task, x)
            blocks = layout.shape[1]
            at_once = max(1, _CHUNK // max(1, 2 * x.numel()))
            values = torch.cat(
                [
                    self._values(task, x, loss, layout, first, min(first + at_once, blocks))
                    for first in range(0, blocks, at_once)
                ],
                1,
            )
            plus, minus = values.unbind(2)
            gradient = reduce(plus, minus, layout, block_sizes(layout), self.h, *x.shape[1:])
            return Slope(gradient.to(x.dtype), loss(logits, task.goals), logits)

    def _values(self, task: Task, x: Tensor, loss: Loss, layout: Tensor, first: int, last: int) -> Tensor:
        """The loss above and below some blocks, float64 [n, blocks, 2].

        A function of its own: where the probes before are gone already, the next ones get the memory that
        these had. Memory fresh from the system costs more than all that is written into it.
        """
        shown = probes(x, layout, first, last, self.h)
        rows = torch.arange(len(x), device=x.device).repeat_interleave(shown.shape[1])
        # In float64: near a confident answer the differences drown in the rounding of a float32 loss.
        logits = task.target.select(rows)(shown.flatten(0, 1)).double()
        return loss(logits, task.goals[rows]).reshape(len(x), last - first, 2)

    def _layout(self, task: Task, x: Tensor) -> Tensor:
        _, channels, height, width = x.shape
        apart = self.channels == "separate"
        squares = count_squares(channels, height, width, self.square, apart)
        if self.group == 1:
            # A square each: the blocks are the same in any order.
            order = torch.arange(squares, device=x.device)[None]
        else:
            order = task.random.uniform((squares,)).argsort(dim=1, stable=True)
        return square_blocks(order, channels, height, width, self.square, self.group, apart)
