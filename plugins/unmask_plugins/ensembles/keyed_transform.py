"""Classifiers that see images through a transformation that only the defender knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from unmask.errors import UserError
from unmask_plugins.ensembles.members import checked_members, mean_log_probabilities

__all__ = ["KeyedTransform", "KeyedTransformation"]

Transform = Literal["permutation", "sign-flip"]


class KeyedTransformation(nn.Module):
    """A transformation of images that a key fixes; the same for all images and calls.

    ``permutation`` shuffles pixels (Taran, Rezaeifar and Voloshynovskiy 2018). ``sign-flip``
    multiplies coefficients of the discrete cosine transform by random signs (Taran et al. 2019).

    Args:
        key: The secret, a whole number.
        transform: Which of the two.
        share: Share of the pixels that are shuffled, drawn by the key; or of the coefficients, the highest
            frequencies first.

    Raises:
        UserError: An option out of its range.
    """

    def __init__(self, key: int, transform: Transform = "permutation", share: float = 1.0) -> None:
        super().__init__()
        if not 0 <= key < 2**63:
            raise UserError(f"{key} must be a whole number from 0 to 2^63 - 1.", where="key")
        if transform not in ("permutation", "sign-flip"):
            raise UserError(f"'{transform}' is neither 'permutation' nor 'sign-flip'.", where="transform")
        if not 0 < share <= 1:
            raise UserError(f"{share} must lie above 0 and at most at 1.", where="share")
        self.key, self.transform, self.share = key, transform, share

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] to images of the same shape."""
        generator = torch.Generator().manual_seed(self.key)
        height, width = images.shape[2:]
        if self.transform == "permutation":
            moved = torch.randperm(height * width, generator=generator)
            moved = moved[: max(2, round(self.share * len(moved)))]
            order = torch.arange(height * width)
            order[moved] = moved[torch.randperm(len(moved), generator=generator)]
            return images.flatten(2)[:, :, order.to(images.device)].reshape(images.shape)
        signs = torch.randint(2, (height, width), generator=generator) * 2 - 1
        frequency = torch.arange(height)[:, None] / height + torch.arange(width)[None] / width
        kept = frequency.flatten().argsort(stable=True)[: round((1 - self.share) * height * width)]
        signs.view(-1)[kept] = 1
        down, across = _cosines(height).to(images), _cosines(width).to(images)
        coefficients = down @ images @ across.T
        return down.T @ (coefficients * signs.to(images)) @ across


class KeyedTransform(nn.Module):
    """Channels, each with its own key and classifier, whose probabilities are averaged (Taran et al. 2019).

    Member i stands behind the transformation of the key ``key + i``. With one member it is the single
    channel of 2018. Members must have been trained behind their transformation; a permutation of all pixels
    leaves nothing that another model could know again, while few flipped high frequencies do.

    Args:
        members: The classifiers.
        key: The first member's key.
        transform: ``permutation`` of pixels, or ``sign-flip`` of cosine coefficients.
        share: Share of the pixels that are shuffled, drawn by the key; or of the coefficients, the highest
            frequencies first.

    Raises:
        UserError: No members, or an option out of its range.
    """

    def __init__(
        self,
        members: Sequence[nn.Module],
        key: int = 0,
        transform: Transform = "permutation",
        share: float = 1.0,
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(checked_members(members))
        self.transformations = nn.ModuleList(
            KeyedTransformation(key + i, transform, share) for i in range(len(self.members))
        )

    def forward(self, images: Tensor) -> Tensor:
        """Logits of one member, or the logarithm of the mean probability of several, [sample, class]."""
        answers = [
            member(transformation(images))
            for member, transformation in zip(self.members, self.transformations, strict=True)
        ]
        return answers[0] if len(answers) == 1 else mean_log_probabilities(answers)


def _cosines(size: int) -> Tensor:
    """The orthonormal matrix of the discrete cosine transform of type II, [frequency, position]."""
    frequency = torch.arange(size, dtype=torch.float64)[:, None]
    position = torch.arange(size, dtype=torch.float64)[None]
    matrix: Tensor = (math.pi / size * (position + 0.5) * frequency).cos() * (2 / size) ** 0.5
    matrix[0] /= 2**0.5
    return matrix
