"""Models with known answers, shared by all tests."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn


class Linear(nn.Module):
    """Logits W x + b of the flattened image."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(len(weight), dtype=weight.dtype) if bias is None else bias)

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight.T + self.bias


class Coin(nn.Module):
    """Right about class 0 with probability p, whatever the image."""

    def __init__(self, p: float, classes: int = 3) -> None:
        super().__init__()
        self.p, self.classes = p, classes

    def forward(self, images: Tensor) -> Tensor:
        tails = (torch.rand(len(images)) >= self.p).long()
        return nn.functional.one_hot(tails, self.classes).float() * 5.0


class _ZeroBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, images):
        return images.clone()

    @staticmethod
    def backward(ctx, gradient):
        return torch.zeros_like(gradient)


class ZeroBackward(nn.Module):
    """The identity, with a gradient of zero."""

    def forward(self, images: Tensor) -> Tensor:
        return _ZeroBackward.apply(images)


class Constant(nn.Module):
    """The same logits for every image."""

    def __init__(self, *logits: float) -> None:
        super().__init__()
        self.register_buffer("logits", torch.tensor(logits))

    def forward(self, images: Tensor) -> Tensor:
        return self.logits.expand(len(images), -1) + 0 * images.flatten(1).sum(1, keepdim=True)


def linear_problem(n: int = 40, shape: tuple[int, int, int] = (3, 2, 2), classes: int = 3, seed: int = 0):
    """A linear model with images and labels, the first three labels wrong."""
    generator = torch.Generator().manual_seed(seed)
    size = shape[0] * shape[1] * shape[2]
    model = Linear(torch.randn(classes, size, generator=generator) / size**0.5).eval()
    images = torch.rand((n, *shape), generator=generator)
    with torch.no_grad():
        labels = model(images).argmax(1)
    labels[:3] = (labels[:3] + 1) % classes
    return model, images, labels


def robust_linf(model: Linear, images: Tensor, labels: Tensor, epsilon: float) -> Tensor:
    """Whether each image stays right everywhere in ball and box: exact for a linear model."""
    weight, x = model.weight.detach().double(), images.flatten(1).double()
    difference = weight[labels][:, None] - weight[None]
    low, high = (x - epsilon).clamp_min(0)[:, None], (x + epsilon).clamp_max(1)[:, None]
    bias = model.bias.detach().double()
    worst = (difference * torch.where(difference > 0, low, high)).sum(2) + bias[labels][:, None] - bias[None]
    return worst.scatter(1, labels[:, None], torch.inf).amin(1) > 0


def task_of(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    norm: str = "linf",
    epsilon: float = 0.1,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    targets: Tensor | None = None,
    seed: int = 0,
):
    """What an attack or a gradient source is given, for use without an evaluation round it."""
    from unmask.evaluation.inspection import inspect_model
    from unmask.evaluation.ledger import Ledger
    from unmask.evaluation.oracle import Oracle
    from unmask.evaluation.random import SampleRandom
    from unmask.evaluation.target import Target
    from unmask.evaluation.task import Task
    from unmask.evaluation.threat import Ball
    from unmask.plugins.catalog import catalog

    kernels = catalog().kernels()

    def stream(purpose: str) -> SampleRandom:
        return SampleRandom.for_samples(
            range(len(images)), seed, purpose, kernels=kernels, dtype=images.dtype
        )

    ball = Ball(norm, epsilon, bounds, kernels)
    oracle = Oracle(inspect_model(model, images, labels), 64)
    ledger = Ledger(
        oracle=oracle,
        clean=images,
        labels=labels,
        ball=ball,
        random=stream("model"),
        targets=targets,
        early_exit=False,
    )
    return Task(Target(ledger), images, labels, ball, stream("attack"), targets=targets)


@pytest.fixture
def known():
    """The models and truths of this module."""
    from types import SimpleNamespace

    return SimpleNamespace(
        Linear=Linear,
        Coin=Coin,
        ZeroBackward=ZeroBackward,
        Constant=Constant,
        linear_problem=linear_problem,
        robust_linf=robust_linf,
        task_of=task_of,
    )
