"""Zero-order gradients by two-sided finite differences over blocks of variables.

Boytsov et al. (2025), equation 6: all variables of a block are moved together by +h and by -h, and the
difference of the two values, divided by 2h and by the number of variables in the block, is taken as the
derivative by each of them. Exact for a loss that is linear (or quadratic, being two-sided) when every block
is one variable; with larger blocks it is the mean derivative of the block.

A layout is an int64 tensor [n or 1, blocks, variables] that lists the variables of every block by their
numbers in the flattened image; a block with fewer variables than others names its first one again.
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
    tiles = columns * ((height + square - 1) // square)
    squares = tiles * channels if separate_channels else tiles
    # The variables of every square, -1 where its image ends; those of one square more, which has none.
    down, across = min(square, height), min(square, width)
    within = torch.arange(
        (1 if separate_channels else channels) * down * across, dtype=torch.int64, device=order.device
    )
    number = torch.arange(squares + 1, dtype=torch.int64, device=order.device).unsqueeze(1)
    channel = number // tiles + within // (down * across)
    y = number % tiles // columns * square + within // across % down
    x = number % columns * square + within % across
    inside = (number < squares) & (y < height) & (x < width)
    variables = torch.where(inside, (channel * height + y) * width + x, -1)
    blocks = (squares + group - 1) // group
    lacking = blocks * group - squares
    full = torch.cat([order, torch.full_like(order[:, :1], squares).expand(-1, lacking)], 1)
    layout = variables.index_select(0, full.flatten()).reshape(order.shape[0], blocks, group * within.numel())
    return torch.where(layout < 0, layout[:, :, :1], layout)


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
        int64 [n or 1, `count_blocks` of `count_squares`, variables]; every variable is in one block.

    Raises:
        ValueError: A square or group below one, or an order of another length.
    """
    squares = count_squares(channels, height, width, square, separate_channels)
    count_blocks(squares, group)
    if order.dim() != 2 or order.shape[1] != squares:
        raise ValueError(f"the order must be [n or 1, {squares} squares], not {list(order.shape)}.")
    return _square_blocks(order, channels, height, width, square, group, separate_channels)


@kernel
def block_sizes(layout: Tensor) -> Tensor:
    """Number of variables in each block, int64 [n or 1, blocks]."""
    return 1 + (layout[:, :, 1:] != layout[:, :, :1]).sum(2)


@kernel
def probes(x: Tensor, layout: Tensor, first: int, last: int, step: float) -> Tensor:
    """The points at which blocks ``first`` to ``last - 1`` are probed.

    Args:
        x: [n, channel, height, width].
        layout: int64 [n or 1, blocks, variables].
        first: First block.
        last: Block after the last.
        step: h.

    Returns:
        [n, 2 * (last - first), channel, height, width]: for each block x + h, then x - h.
    """
    n, count, size = x.shape[0], last - first, x.shape[1] * x.shape[2] * x.shape[3]
    moved = layout[:, first:last].expand(n, -1, -1)
    here = x.flatten(1).gather(1, moved.flatten(1)).reshape(n, count, layout.shape[2])
    # One pair of probes is one row, its lower half behind the upper: a block touches no row but its own.
    pairs = x.flatten(1).repeat(1, 2 * count).reshape(n, count, 2 * size)
    pairs = pairs.scatter_(2, torch.cat([moved, moved + size], 2), torch.cat([here + step, here - step], 2))
    return pairs.reshape(n, 2 * count, x.shape[1], x.shape[2], x.shape[3])


@kernel
def reduce(
    values_plus: Tensor,
    values_minus: Tensor,
    layout: Tensor,
    sizes: Tensor,
    step: float,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    """Values at the probes to the gradient.

    Args:
        values_plus: [n, blocks], the function at x + h.
        values_minus: [n, blocks], the function at x - h.
        layout: int64 [n or 1, blocks, variables].
        sizes: int64 [n or 1, blocks], variables in each block (`block_sizes`).
        step: h.
        channels: Number of channels.
        height: In pixels.
        width: In pixels.

    Returns:
        [n, channels, height, width], in the values' dtype.
    """
    n = values_plus.shape[0]
    slopes = (values_plus - values_minus) / (2.0 * step * sizes.to(values_plus.dtype))
    everywhere = layout.expand(n, -1, -1)
    gradient = slopes.new_empty([n, channels * height * width]).scatter_(
        1, everywhere.flatten(1), slopes.unsqueeze(2).expand(-1, -1, layout.shape[2]).flatten(1)
    )
    return gradient.reshape(n, channels, height, width)
