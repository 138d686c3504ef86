"""Means over draws or members: expectation over transformation (Athalye et al. 2018, section 4.2).

The gradient of an expectation is the expectation of the gradients: with equal weights over independent draws
the mean is an unbiased estimate; with the members' probabilities over all members of an ensemble it is exact.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask_kernels.compiling import kernel

__all__ = ["expected_slope", "weighted_mean"]


@kernel
def _mean(values: Tensor) -> Tensor:
    return values.mean(0)


@kernel
def _weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    # A member of weight zero never answers: what it would have said, even NaN, must not count.
    terms = torch.where(weights > 0.0, values * weights.to(values.dtype), 0.0)
    return terms.sum(0) / weights.sum(0).to(values.dtype)


def weighted_mean(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean over the leading axis, draws or members.

    Args:
        values: Floating [draw, n, ...].
        weights: Non-negative [draw], or [draw, n] where samples weigh differently; need not sum to one. Equal
            weights when None.

    Returns:
        [n, ...]; NaN where all weights of a sample are zero.

    Raises:
        ValueError: No draws, or weights of another shape.
    """
    if len(values) == 0:
        raise ValueError("a mean needs at least one draw; there is none.")
    if weights is None:
        return _mean(values)
    if weights.shape not in (values.shape[:1], values.shape[:2]):
        raise ValueError(
            f"weights must be {list(values.shape[:1])} or {list(values.shape[:2])}, "
            f"not {list(weights.shape)}."
        )
    return _weighted_mean(values, weights.reshape(*weights.shape, *[1] * (values.dim() - weights.dim())))


def expected_slope(
    gradients: Tensor, losses: Tensor, logits: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Expected gradient [n, channel, height, width], loss [n] and logits [n, class].

    Args:
        gradients: [draw, n, channel, height, width].
        losses: [draw, n].
        logits: [draw, n, class].
        weights: As for `weighted_mean`.
    """
    return weighted_mean(gradients, weights), weighted_mean(losses, weights), weighted_mean(logits, weights)
