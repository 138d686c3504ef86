"""Noise added to every image before it is classified."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unmask.errors import UserError

__all__ = ["GaussianNoise"]


class GaussianNoise(nn.Module):
    """Images plus Gaussian noise, drawn anew for every pixel and call (Cohen et al. 2019, equation 1).

    Its Jacobian is the identity, so the gradient that autograd gives is exact for the draw, and so is the
    backward pass of BPDA. Values are not cut to any range.

    Args:
        sigma: Standard deviation in units of a pixel value.

    Raises:
        UserError: A negative deviation.
    """

    def __init__(self, sigma: float = 0.1) -> None:
        super().__init__()
        if not sigma >= 0:
            raise UserError(f"{sigma} must not be negative.", where="sigma")
        self.sigma = sigma

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] to images of the same shape."""
        return images + self.sigma * torch.randn_like(images)
