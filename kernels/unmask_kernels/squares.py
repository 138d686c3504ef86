"""Windows of the Square Attack (Andriushchenko et al. 2020, algorithms 1 and 2), linf.

Algorithm 2 adds +-2 epsilon inside a square and projects. The point before is within epsilon of the image,
so the sum lies at or beyond the ball's face, and its projection is the corner of ball and box on that side.
Hence both corners are computed once per image (`corners`) and a proposal merely selects between them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask_kernels.balls import project
from unmask_kernels.compiling import kernel

__all__ = ["corners", "paint_squares", "paint_windows", "stripes"]


def _windows(top: Tensor, left: Tensor, size: Tensor, height: int, width: int) -> Tensor:
    """Where each sample's window is, bool [n, 1, height, width]."""
    rows = torch.arange(height, device=top.device)
    columns = torch.arange(width, device=top.device)
    down = (rows >= top.unsqueeze(1)) & (rows < (top + size).unsqueeze(1))
    across = (columns >= left.unsqueeze(1)) & (columns < (left + size).unsqueeze(1))
    return (down.unsqueeze(2) & across.unsqueeze(1)).unsqueeze(1)


@kernel
def paint_windows(x: Tensor, top: Tensor, left: Tensor, size: Tensor, values: Tensor) -> Tensor:
    """Images whose square window is replaced by `values`; what reaches over the border is cut.

    Args:
        x: [n, channel, height, width].
        top: int64 [n], first row.
        left: int64 [n], first column.
        size: int64 [n], side.
        values: Same dtype as `x`, of a shape that expands to it: [n, channel, 1, 1] for one colour.
    """
    return torch.where(_windows(top, left, size, x.shape[2], x.shape[3]), values, x)


@kernel
def paint_squares(
    x: Tensor, lower: Tensor, upper: Tensor, top: Tensor, left: Tensor, size: Tensor, signs: Tensor
) -> Tensor:
    """Algorithm 2's proposal: the square window at the upper or lower corner, chosen per channel.

    Args:
        x: [n, channel, height, width], the best points so far.
        lower: The images' lower corners (`corners`).
        upper: The images' upper corners.
        top: int64 [n], first row.
        left: int64 [n], first column.
        size: int64 [n], side.
        signs: [n, channel], -1 or +1.
    """
    corner = torch.where((signs > 0).unsqueeze(2).unsqueeze(3), upper, lower)
    return torch.where(_windows(top, left, size, x.shape[2], x.shape[3]), corner, x)


@kernel
def stripes(lower: Tensor, upper: Tensor, signs: Tensor) -> Tensor:
    """The attack's first point: vertical stripes one pixel wide at the upper or lower corner.

    Args:
        lower: [n, channel, height, width], the images' lower corners (`corners`).
        upper: Their upper corners.
        signs: [n, channel, width], -1 or +1.
    """
    return torch.where((signs > 0).unsqueeze(2), upper, lower)


def corners(images: Tensor, epsilon: float, low: float, high: float) -> tuple[Tensor, Tensor]:
    """The lowest and the highest point of ball and box round each image, exactly inside (`project`)."""
    beyond = 2.0 * epsilon
    return (
        project(images - beyond, images, "linf", epsilon, low, high),
        project(images + beyond, images, "linf", epsilon, low, high),
    )
