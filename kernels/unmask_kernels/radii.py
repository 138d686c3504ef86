"""Balls round zero with a radius for every sample."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask_kernels.compiling import by_rows, kernel

__all__ = ["shrink"]


@kernel
def _shrink_linf(differences: Tensor, radii: Tensor) -> Tensor:
    flat = differences.flatten(1)
    limit = radii.unsqueeze(1)
    return torch.minimum(torch.maximum(flat, -limit), limit).reshape(differences.shape)


@kernel
def _shrink_l2(differences: Tensor, radii: Tensor) -> Tensor:
    flat = differences.flatten(1)
    lengths = flat.square().sum(1, keepdim=True).sqrt()
    limit = radii.unsqueeze(1)
    scale = torch.where(lengths > limit, limit / lengths.clamp_min(1e-300), 1.0)
    return (flat * scale).reshape(differences.shape)


@kernel
def _shrink_l1(differences: Tensor, radii: Tensor) -> Tensor:
    flat = differences.flatten(1)
    sizes = flat.abs()
    outside = sizes.sum(1, keepdim=True) > radii.unsqueeze(1)
    radius = torch.where(outside, radii.unsqueeze(1), 0.0)
    ordered = torch.sort(sizes, dim=1, descending=True)[0]
    excess = ordered.cumsum(1) - radius
    ranks = torch.arange(1, sizes.shape[1] + 1, dtype=sizes.dtype, device=sizes.device)
    support = (ordered * ranks > excess).sum(1, keepdim=True).clamp_min(1)
    threshold = (excess.gather(1, support - 1) / support).clamp_min(0.0)
    shrunk = (sizes - threshold).clamp_min(0.0)
    moved = torch.where(flat < 0.0, -shrunk, shrunk)
    return torch.where(outside, moved, flat).reshape(differences.shape)


def shrink(differences: Tensor, radii: Tensor, norm: str) -> Tensor:
    """Euclidean projection of differences [n, ...] onto the ball of each sample's radius, in float64.

    linf: cut off. l2: scaled. l1: soft thresholding (Duchi et al. 2008, figure 1). What lies inside stays.

    Args:
        differences: float64 [n, ...].
        radii: float64 [n], 0 to infinity.
        norm: ``linf``, ``l2`` or ``l1``.

    Raises:
        ValueError: Unknown norm.
    """
    known = {"linf": _shrink_linf, "l2": _shrink_l2, "l1": _shrink_l1}
    if norm not in known:
        raise ValueError(f"the norm is {norm!r}; known norms: {', '.join(known)}.")
    return by_rows(known[norm], differences, radii)
