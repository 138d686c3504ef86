"""For tests of searches: what is known of affine models in ball and box, and a small trained network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from unmask import components
from unmask.testing import Linear


def gain_within(difference: Tensor, x: Tensor, epsilon: float, norm: str, box=(0.0, 1.0)) -> float:
    """The most an affine function with this slope rises within ball and box (float64, one image)."""
    room, size = torch.where(difference > 0, box[1] - x, x - box[0]), difference.abs()
    if norm == "linf":
        return float((size * room.clamp_max(epsilon)).sum())
    if norm == "l0":
        return float((size * room).sort(descending=True).values[: int(epsilon)].sum())
    if norm == "l1":
        order = size.argsort(descending=True)
        way, left = room[order], torch.tensor(epsilon, dtype=torch.float64)
        before = way.cumsum(0) - way
        return float((size[order] * torch.minimum(way, (left - before).clamp_min(0))).sum())
    # l2: every coordinate goes min(t |w|, room), for the t at which the length is met.
    low, high = 0.0, 1e6
    for _ in range(200):
        t = (low + high) / 2
        way = torch.minimum(t * size, room)
        low, high = (t, high) if float(way.norm()) < epsilon else (low, t)
    return float((size * torch.minimum(low * size, room)).sum())


def robust_within(
    model: Linear, images: Tensor, labels: Tensor, epsilon: float, norm: str, box=(0.0, 1.0)
) -> np.ndarray:
    """Where no class can overtake the label."""
    weight, logits = model.weight.detach().double(), model(images).detach().double()
    found = []
    for x, label, z in zip(images.flatten(1).double(), labels.tolist(), logits, strict=True):
        classes = [k for k in range(len(weight)) if k != label]
        gains = [
            gain_within(weight[k] - weight[label], x, epsilon, norm, box) - float(z[label] - z[k])
            for k in classes
        ]
        found.append(max(gains) < 0)
    return np.array(found)


@pytest.fixture
def robust() -> Callable[..., np.ndarray]:
    """`robust(model, images, labels, epsilon, norm, box)`: which samples no point of ball and box turns."""
    return robust_within


def trained_on_digits(epochs: int) -> torch.nn.Module:
    """A small convolutional network after so many epochs; the same every time."""
    train = components.data("digits", split="train")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(8, 8, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(128, 10),
        )
        optimiser = torch.optim.Adam(net.parameters(), 5e-3)
        for _ in range(epochs):
            for rows in torch.randperm(len(train)).split(50):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(net(train.images[rows]), train.labels[rows]).backward()
                optimiser.step()
    return net.eval()


@pytest.fixture(scope="session")
def small_digits_net() -> Callable[..., torch.nn.Module]:
    """`small_digits_net(epochs=...)`: a convolutional network trained on digits."""
    return trained_on_digits
