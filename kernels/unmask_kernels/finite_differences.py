"""Zero-order gradients by two-sided finite differences over blocks of variables.

Boytsov et al. (2025), equation 6: all variables of a block are moved together by +h and by -h, and the
difference of the two values, divided by 2h and by the number of variables in the block, is taken as the
derivative by each of them. Exact for a loss that is linear (or quadratic, being two-sided) when every block
is one variable; with larger blocks it is the mean derivative of the block.

A layout is an int64 tensor [n or 1, channel, height, width] that gives every variable its block's number.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask_kernels.compiling import kernel

__all__ = ["block_sizes", "count_blocks", "count_squares", "probes", "reduce", "square_blocks"]


def count_squares(
    channels: int, height: int, width: int, square: int, separate_channels: bool = False
) -> int:
    """Number of `square` x `square` squares that cover an image, partial ones at the border included.

    Raises:
        ValueError: A square smaller than one pixel.
    """
    if square < 1:
        raise ValueError(f"a square's side must be at least 1 pixel, and is {square}.")
    tiles = -(-height // square) * -(-width // square)
    return tiles * channels if separate_channels else tiles


def count_blocks(squares: int, group: int) -> int:
    """Number of blocks when `group` squares go into each; the last may have fewer.

    Raises:
        ValueError: A group of less than one square.
    """
    if group < 1:
        raise ValueError(f"a group must have at least 1 square, and has {group}.")
    return -(-squares // group)


@kernel
def _square_blocks(
    order: Tensor, channels: int, height: int, width: int, square: int, group: int, separate_channels: bool
) -> Tensor:
    columns = (width + square - 1) // square
    rows = (height + square - 1) // square
    down = torch.arange(height, dtype=torch.int64, device=order.device) // square
    across = torch.arange(width, dtype=torch.int64, device=order.device) // square
    tiles = (down.unsqueeze(1) * columns + across).unsqueeze(0)
    stride = rows * columns if separate_channels else 0
    first = torch.arange(channels, dtype=torch.int64, device=order.device) * stride
    squares = (tiles + first.reshape(-1, 1, 1)).flatten()
    blocks_of_squares = torch.argsort(order, dim=1) // group
    return blocks_of_squares[:, squares].reshape(order.shape[0], channels, height, width)


def square_blocks(
    order: Tensor,
    channels: int,
    height: int,
    width: int,
    square: int = 1,
    group: int = 1,
    separate_channels: bool = False,
) -> Tensor:
    """A layout of blocks of `group` squares each, taken in a given order.

    Args:
        order: int64 [n or 1, squares], a permutation of the squares' numbers per sample; drawn at random
            outside. Squares are numbered along rows, then channels where these are separate.
        channels: Number of channels.
        height: In pixels.
        width: In pixels.
        square: Side of a square; squares at the right and lower border may be cut.
        group: Squares per block; the last block may have fewer.
        separate_channels: Each channel has squares of its own; otherwise a square has all channels.

    Returns:
        int64 [n or 1, channels, height, width] with values in [0, `count_blocks` of `count_squares`).

    Raises:
        ValueError: A square or group below one, or an order of another length.
    """
    squares = count_squares(channels, height, width, square, separate_channels)
    count_blocks(squares, group)
    if order.dim() != 2 or order.shape[1] != squares:
        raise ValueError(f"the order must be [n or 1, {squares} squares], not {list(order.shape)}.")
    return _square_blocks(order, channels, height, width, square, group, separate_channels)


@kernel
def block_sizes(assignment: Tensor, blocks: int) -> Tensor:
    """Number of variables in each block, int64 [n or 1, blocks]."""
    flat = assignment.flatten(1)
    sizes = torch.zeros([flat.shape[0], blocks], dtype=torch.int64, device=flat.device)
    return sizes.scatter_add(1, flat, torch.ones_like(flat))


@kernel
def probes(x: Tensor, assignment: Tensor, first: int, last: int, step: float) -> Tensor:
    """The points at which blocks ``first`` to ``last - 1`` are probed.

    Args:
        x: [n, channel, height, width].
        assignment: int64 [n or 1, channel, height, width], every variable's block.
        first: First block.
        last: Block after the last.
        step: h.

    Returns:
        [n, 2 * (last - first), channel, height, width]: for each block x + h, then x - h.
    """
    size = x.shape[1] * x.shape[2] * x.shape[3]
    flat = (assignment.flatten(1) - first).expand(x.shape[0], -1)
    here = (flat >= 0) & (flat < last - first)
    # Every variable moves in one pair of probes alone; those of other blocks add nothing to the first.
    up = flat * (2 * size) + torch.arange(size, dtype=torch.int64, device=x.device)
    up = torch.where(here, up, 0)
    moves = here.to(x.dtype) * step
    shown = x.flatten(1).repeat(1, 2 * (last - first))
    shown = shown.scatter_add_(1, up, moves).scatter_add_(1, torch.where(here, up + size, 0), -moves)
    return shown.reshape(x.shape[0], 2 * (last - first), x.shape[1], x.shape[2], x.shape[3])


@kernel
def reduce(
    values_plus: Tensor, values_minus: Tensor, assignment: Tensor, sizes: Tensor, step: float
) -> Tensor:
    """Values at the probes to the gradient.

    Args:
        values_plus: [n, blocks], the function at x + h.
        values_minus: [n, blocks], the function at x - h.
        assignment: int64 [n or 1, channel, height, width], every variable's block.
        sizes: int64 [n or 1, blocks], variables in each block (`block_sizes`).
        step: h.

    Returns:
        [n, channel, height, width], in the values' dtype.
    """
    slopes = (values_plus - values_minus) / (2.0 * step * sizes.clamp_min(1).to(values_plus.dtype))
    flat = assignment.flatten(1).expand(values_plus.shape[0], -1)
    return slopes.gather(1, flat).reshape(
        values_plus.shape[0], assignment.shape[1], assignment.shape[2], assignment.shape[3]
    )
