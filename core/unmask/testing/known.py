"""Models with known answers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from unmask.models.initialisation import seeded

__all__ = ["Coin", "Constant", "Linear", "ZeroBackward", "linear_problem", "robust_linf", "small_net"]


class Linear(nn.Module):
    """Logits W x + b of the flattened image.

    Args:
        weight: W, [class, pixel].
        bias: b, [class]; zero when None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(len(weight), dtype=weight.dtype) if bias is None else bias)

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] to logits [sample, class]."""
        return images.flatten(1) @ self.weight.T + self.bias


class Coin(nn.Module):
    """Right about class 0 with probability p, whatever the image.

    Args:
        p: How often it is right.
        classes: Number of logits.
    """

    def __init__(self, p: float, classes: int = 3) -> None:
        super().__init__()
        self.p, self.classes = p, classes

    def forward(self, images: Tensor) -> Tensor:
        """Logits [sample, class]: 5 for class 0 or for class 1, drawn for every image."""
        tails = (torch.rand(len(images)) >= self.p).long()
        return nn.functional.one_hot(tails, self.classes).float() * 5.0


class _ZeroBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, images: Tensor) -> Tensor:
        return images.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return torch.zeros_like(gradient)


class ZeroBackward(nn.Module):
    """The identity, with a gradient of zero: a front end that masks completely."""

    def forward(self, images: Tensor) -> Tensor:
        """The images."""
        shown: Tensor = _ZeroBackward.apply(images)
        return shown


class Constant(nn.Module):
    """The same logits for every image; differentiable, with a gradient of zero."""

    logits: Tensor

    def __init__(self, *logits: float) -> None:
        super().__init__()
        self.register_buffer("logits", torch.tensor(logits))

    def forward(self, images: Tensor) -> Tensor:
        """Logits [sample, class]."""
        return self.logits.expand(len(images), -1) + 0 * images.flatten(1).sum(1, keepdim=True)


def linear_problem(
    n: int = 40, shape: tuple[int, int, int] = (3, 2, 2), classes: int = 3, seed: int = 0
) -> tuple[Linear, Tensor, Tensor]:
    """A linear model in eval mode, images in [0, 1] and labels, the first three labels wrong."""
    generator = torch.Generator().manual_seed(seed)
    size = math.prod(shape)
    model = Linear(torch.randn(classes, size, generator=generator) / size**0.5).eval()
    images = torch.rand((n, *shape), generator=generator)
    with torch.no_grad():
        labels = model(images).argmax(1)
    labels[:3] = (labels[:3] + 1) % classes
    return model, images, labels


def robust_linf(model: Linear, images: Tensor, labels: Tensor, epsilon: float) -> Tensor:
    """Whether each image stays right everywhere in linf ball and box [0, 1], bool [sample]: exact."""
    weight, x = model.weight.detach().double(), images.flatten(1).double()
    difference = weight[labels][:, None] - weight[None]
    low, high = (x - epsilon).clamp_min(0)[:, None], (x + epsilon).clamp_max(1)[:, None]
    bias = model.bias.detach().double()
    worst = (difference * torch.where(difference > 0, low, high)).sum(2) + bias[labels][:, None] - bias[None]
    return worst.scatter(1, labels[:, None], torch.inf).amin(1) > 0


def small_net(channels: int = 1, classes: int = 4, *, seed: int = 0) -> nn.Module:
    """A small convolutional network for images of any size, in eval mode; the same for the same seed."""
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(channels, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(32, classes),
        ).eval()
