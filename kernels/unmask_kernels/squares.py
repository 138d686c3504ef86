"""Windows of the Square Attack (Andriushchenko et al. 2020; in l1 as Croce and Hein 2021, "Mind the box").

linf, algorithm 2, adds +-2 epsilon inside a square and projects. The point before is within epsilon of the
image, so the sum lies at or beyond the ball's face, and its projection is the corner of ball and box on that
side. Hence both corners are computed once per image (`corners`) and a proposal merely selects between them.

l2 and l1, algorithm 3: a proposal empties one window and puts what it held, with what the ball still allows,
into another (`move_mass`), in the shape of two hills of opposite sign (`hills`).
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from unmask_kernels.balls import project
from unmask_kernels.compiling import kernel

__all__ = ["corners", "hills", "move_mass", "paint_squares", "paint_windows", "stripes"]


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


def _hill(height: int, width: int) -> Tensor:
    """A hill in the middle of a window, float64 [height, width] (section 3.4, the sum before equation 2).

    At Chebyshev distance t from the centre it is the sum of 1 / k^2 over k from t + 1 on.
    """
    rows = (torch.arange(height) - height // 2).abs()
    columns = (torch.arange(width) - width // 2).abs()
    distance = torch.maximum(rows.unsqueeze(1), columns.unsqueeze(0))
    layers = max(height // 2, width // 2) + 1
    terms = 1.0 / torch.arange(1, layers + 1, dtype=torch.float64).square()
    return terms.flip(0).cumsum(0).flip(0)[distance]


@functools.lru_cache(maxsize=64)
def hills(side: int, norm: str) -> Tensor:
    """Two hills of opposite sign, one above the other, of unit norm: float64 [side, side].

    Args:
        side: Of the window.
        norm: ``l2`` or ``l1``.
    """
    with torch.inference_mode(False):
        upper = side // 2
        both = torch.cat([_hill(upper, side), -_hill(side - upper, side)])
        length: Tensor = torch.linalg.vector_norm(both.flatten(), ord={"l2": 2.0, "l1": 1.0}[norm])
        return both / length


def _unit(values: Tensor, order: int) -> Tensor:
    """Per channel: the norm of [n, channel, height, width], with its axes kept."""
    if order == 1:
        return values.abs().sum([2, 3], keepdim=True)
    return values.square().sum([2, 3], keepdim=True).sqrt()


@kernel
def move_mass(
    delta: Tensor,
    pattern: Tensor,
    top: Tensor,
    left: Tensor,
    from_top: Tensor,
    from_left: Tensor,
    radius: Tensor,
    order: int,
) -> Tensor:
    """Algorithm 3's proposal, lines 3 to 12: one window is emptied, another takes its mass and what is
    unused.

    The window that takes gets the direction of pattern plus its own, and per channel the norm that both
    windows held there together with an equal share of what the whole falls short of the radius.

    Args:
        delta: Perturbations [n, channel, height, width].
        pattern: What is added, of unit norm per channel, signs included: [n, channel, side, side].
        top: int64 [n], first row of the window that takes.
        left: int64 [n], first column.
        from_top: int64 [n], first row of the window that is emptied; what both cover is not.
        from_left: int64 [n], first column.
        radius: Of the ball, [n].
        order: 2 or 1, of the norm.
    """
    n, channels, height, width = delta.shape
    side = pattern.shape[2]
    size = torch.full((n,), side, dtype=torch.int64, device=delta.device)
    takes = _windows(top, left, size, height, width)
    gives = _windows(from_top, from_left, size, height, width)
    here = torch.where(takes, delta, 0.0)
    rows = (torch.arange(height, device=delta.device) - top.unsqueeze(1)).clamp(0, side - 1)
    columns = (torch.arange(width, device=delta.device) - left.unsqueeze(1)).clamp(0, side - 1)
    rows = rows.unsqueeze(1).unsqueeze(3).expand(-1, channels, -1, side)
    spread = pattern.gather(2, rows)
    spread = spread.gather(3, columns.unsqueeze(1).unsqueeze(2).expand(-1, channels, height, -1))
    turned = torch.where(takes, spread, 0.0) + here / _unit(here, order).clamp_min(1e-12)
    turned = turned / _unit(turned, order).clamp_min(1e-12)
    held = _unit(torch.where(takes | gives, delta, 0.0), order)
    whole = _unit(delta, order)
    limit = radius.unsqueeze(1).unsqueeze(2).unsqueeze(3)
    if order == 1:
        unused = (limit - whole.sum(1, keepdim=True)).clamp_min(0.0)
        norm = held + unused / channels
    else:
        unused = (limit.square() - whole.square().sum(1, keepdim=True)).clamp_min(0.0)
        norm = (held.square() + unused / channels).sqrt()
    return torch.where(takes, turned * norm, torch.where(gives, 0.0, delta))
