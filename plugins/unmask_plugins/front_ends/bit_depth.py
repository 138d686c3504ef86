"""Fewer bits per pixel as a front end."""

from __future__ import annotations

from torch import Tensor, nn

from unmask.errors import UserError

__all__ = ["BitDepth"]


class BitDepth(nn.Module):
    """Pixel values rounded to 2^bits levels (Xu, Evans and Qi 2018, feature squeezing).

    The derivative of rounding is zero almost everywhere. The backward pass of BPDA takes the identity, as
    Athalye et al. (2018) do against input transformations.

    Args:
        bits: 1 to 8.

    Raises:
        UserError: Another number of bits.
    """

    def __init__(self, bits: int = 4) -> None:
        super().__init__()
        if not 1 <= bits <= 8:
            raise UserError(f"{bits} must be a whole number from 1 to 8.", where="bits")
        self.bits = bits

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] in [0, 1] to images of the same shape."""
        steps = 2**self.bits - 1
        rounded: Tensor = (images * steps).round() / steps
        return rounded
