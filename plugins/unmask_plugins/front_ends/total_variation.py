"""Total variation minimisation as a front end."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from unmask.errors import UserError

__all__ = ["TotalVariation"]


class TotalVariation(nn.Module):
    """Some pixels are dropped at random, and the image of least variation through the rest is drawn.

    Guo et al. (2018), section 3, equation 1, with the squared distance of Rudin, Osher and Fatemi (1992):
    the z that minimises ``weight TV(z) + |mask (z - x)|^2 / 2``, TV being the sum over pixels and channels of
    the length of the discrete gradient. Solved by `iterations` of the primal-dual algorithm of Chambolle and
    Pock (2011), algorithm 1, through which gradients flow. The backward pass of BPDA takes the identity, as
    Athalye et al. (2018) do against input transformations.

    Args:
        weight: Of the total variation, in units of a pixel value.
        keep: Share of the pixels that are kept; with 1 nothing is drawn, and the image is only denoised.
        iterations: Of the solver.

    Raises:
        UserError: An option out of its range.
    """

    def __init__(self, weight: float = 0.03, keep: float = 0.5, iterations: int = 100) -> None:
        super().__init__()
        if not weight > 0:
            raise UserError(f"{weight} must be positive.", where="weight")
        if not 0 < keep <= 1:
            raise UserError(f"{keep} must lie above 0 and at most at 1.", where="keep")
        if iterations < 1:
            raise UserError(f"{iterations} must be at least 1.", where="iterations")
        self.weight, self.keep, self.iterations = weight, keep, iterations

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] to images of the same shape."""
        if self.keep < 1:
            mask = (torch.rand_like(images[:, :1]) < self.keep).to(images.dtype)
        else:
            mask = torch.ones_like(images[:, :1])
        σ = τ = 8**-0.5  # σ τ |∇|² = 1, as theorem 1 asks
        kept = mask * images
        pull, share = τ * kept, 1 / (1 + τ * mask)
        z = ahead = kept
        dual = torch.zeros((2, *z.shape), dtype=z.dtype, device=z.device)
        for _ in range(self.iterations):
            dual = torch.add(dual, _gradient(ahead), alpha=σ)
            # The square root has no derivative at 0, where nothing is cut anyway.
            cut = dual.square().sum(0).clamp_min(self.weight**2).rsqrt()
            dual = dual * (self.weight * cut)
            before, z = z, torch.addcmul(pull * share, z + τ * _divergence(dual), share)
            ahead = 2 * z - before
        return z


def _gradient(z: Tensor) -> Tensor:
    """Forward differences down and right, [2, ...]; zero at the last row and column."""
    return torch.stack([pad(z.diff(dim=-2), (0, 0, 0, 1)), pad(z.diff(dim=-1), (0, 1))])


def _divergence(dual: Tensor) -> Tensor:
    """Minus the adjoint of `_gradient`."""
    down, right = dual
    return pad(down[..., :-1, :], (0, 0, 1, 1)).diff(dim=-2) + pad(right[..., :-1], (1, 1)).diff(dim=-1)
