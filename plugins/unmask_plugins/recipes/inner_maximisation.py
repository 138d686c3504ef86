"""The adversarial examples a model is trained on."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

__all__ = ["strongest_nearby"]


def strongest_nearby(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    epsilon: float,
    step: float,
    steps: int,
    bounds: tuple[float, float],
    generator: torch.Generator,
) -> Tensor:
    """The inner maximum of adversarial training (Madry et al. 2018, eq. 2.1), linf.

    PGD from a random start. It serves training, not evaluation: it keeps the last point and
    is counted nowhere.

    Args:
        model: Images to logits, in the mode it is to be attacked in.
        images: Clean images [sample, channel, height, width] in `bounds`.
        labels: Their classes [sample].
        epsilon: Radius, in units of a pixel value.
        step: How far each step moves every pixel.
        steps: Number of steps.
        bounds: Smallest and largest valid pixel value.
        generator: CPU generator of the starting points, so that they are the same on every device.
    """
    low = (images - epsilon).clamp_min(bounds[0])
    high = (images + epsilon).clamp_max(bounds[1])
    start = torch.rand(images.shape, generator=generator).to(images).mul(2.0).sub(1.0)
    x = torch.clamp(images + epsilon * start, low, high)
    for _ in range(steps):
        x.requires_grad_(True)
        loss = cross_entropy(model(x), labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x)
        x = torch.clamp(x.detach() + step * gradient.sign(), low, high)
    return x.detach()
