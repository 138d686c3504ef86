"""Finite differences: a gradient from scores alone."""

from __future__ import annotations

from typing import ClassVar, Literal

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import Loss, Slope, Task
from unmask_kernels.finite_differences import (
    block_sizes,
    count_blocks,
    count_squares,
    probes,
    reduce,
    square_blocks,
)
from unmask_plugins.attacks.validation import at_least, positive_or_none

__all__ = ["FiniteDifference"]

_CHUNK = 2**20
"""Pixel values of one batch of probes: 4 MiB of float32, which a processor's cache holds."""


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
        n, size = len(x), x[0].numel() if len(x) else 1
        with torch.no_grad():
            logits = task.target(x)
            assignment, blocks = self._layout(task, x)
            plus, minus = (torch.empty((n, blocks), dtype=torch.float64, device=x.device) for _ in "+-")
            at_once = max(1, _CHUNK // max(1, 2 * n * size))
            rows, goals = torch.arange(n, device=x.device), task.goals
            for first in range(0, blocks, at_once):
                last = min(first + at_once, blocks)
                shown = probes(x, assignment, first, last, self.h)
                named = rows.repeat_interleave(shown.shape[1])
                # In float64: near a confident answer the differences drown in the rounding of a float32 loss.
                logits_shown = task.target.select(named)(shown.flatten(0, 1)).double()
                values = loss(logits_shown, goals[named]).reshape(n, last - first, 2)
                plus[:, first:last], minus[:, first:last] = values.unbind(2)
            gradient = reduce(plus, minus, assignment, block_sizes(assignment, blocks), self.h)
            return Slope(gradient.to(x.dtype), loss(logits, task.goals), logits)

    def _layout(self, task: Task, x: Tensor) -> tuple[Tensor, int]:
        _, channels, height, width = x.shape
        apart = self.channels == "separate"
        squares = count_squares(channels, height, width, self.square, apart)
        if self.group == 1:
            # A square each: the blocks are the same in any order.
            order = torch.arange(squares, device=x.device)[None]
        else:
            order = task.random.uniform((squares,)).argsort(dim=1, stable=True)
        assignment = square_blocks(order, channels, height, width, self.square, self.group, apart)
        return assignment, count_blocks(squares, self.group)
