"""Training images varied: shifted, mirrored, with noise."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["varied"]


def varied(
    images: Tensor,
    *,
    shift: int = 0,
    flip: bool = False,
    noise: float = 0.0,
    background: float = 0.0,
    generator: torch.Generator,
) -> Tensor:
    """The images [sample, channel, height, width], each varied on its own.

    Args:
        images: On the CPU.
        shift: Each is moved by up to so many pixels along both axes.
        flip: Each is mirrored left to right with probability 1/2.
        noise: Standard deviation of normal noise added to every pixel value.
        background: What fills the border of a shifted image.
        generator: Draws all of it.
    """
    if shift:
        n, _, height, width = images.shape
        padded = pad(images, (shift,) * 4, value=background)
        offsets = torch.randint(0, 2 * shift + 1, (2, n, 1), generator=generator)
        rows = (offsets[0] + torch.arange(height)).reshape(n, 1, height, 1)
        columns = (offsets[1] + torch.arange(width)).reshape(n, 1, 1, width)
        sample = torch.arange(n).reshape(n, 1, 1, 1)
        channel = torch.arange(images.shape[1]).reshape(1, -1, 1, 1)
        images = padded[sample, channel, rows, columns]
    if flip:
        mirrored = torch.rand((len(images), 1, 1, 1), generator=generator) < 0.5
        images = torch.where(mirrored, images.flip(3), images)
    if noise:
        images = images + noise * torch.randn(images.shape, generator=generator)
    return images
