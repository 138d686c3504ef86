"""The adversarial examples a model is trained on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import attrs
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

__all__ = ["Crafting", "Norm", "in_eval_mode", "strongest_nearby"]

Norm = Literal["linf", "l2"]


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
    norm: Norm = "linf",
    targeted: bool = False,
) -> Tensor:
    """The inner maximum of adversarial training (Madry et al. 2018, eq. 2.1).

    PGD from a random start. It serves training, not evaluation: it keeps the last point and
    is counted nowhere.

    Args:
        model: Images to logits, in the mode it is to be attacked in.
        images: Clean images [sample, channel, height, width] in `bounds`.
        labels: Their classes, or those to be reached [sample].
        epsilon: Radius, in units of a pixel value.
        step: How far each step moves, in the norm: with linf every pixel value by this.
        steps: Number of steps.
        bounds: Smallest and largest valid pixel value.
        generator: CPU generator of the starting points, so that they are the same on every device.
        norm: ``linf`` or ``l2``.
        targeted: Climb towards `labels` instead of away from them.
    """
    low = (images - epsilon).clamp_min(bounds[0])
    high = (images + epsilon).clamp_max(bounds[1])

    def inside(points: Tensor) -> Tensor:
        if norm == "l2":
            offset = points - images
            points = images + offset * (epsilon / _length(offset)).clamp_max(1.0)
        return torch.clamp(points, low, high)

    if norm == "linf":
        start = torch.rand(images.shape, generator=generator).to(images).mul(2.0).sub(1.0)
    else:
        start = torch.randn(images.shape, generator=generator).to(images)
        reach = torch.rand((len(images), 1, 1, 1), generator=generator).to(images)
        start = start / _length(start) * reach ** (1.0 / max(images[:1].numel(), 1))
    x = inside(images + epsilon * start)
    for _ in range(steps):
        x.requires_grad_(True)
        loss = cross_entropy(model(x), labels, reduction="sum")
        (gradient,) = torch.autograd.grad(-loss if targeted else loss, x)
        direction = gradient.sign() if norm == "linf" else gradient / _length(gradient)
        x = inside(x.detach() + step * direction)
    return x.detach()


def _length(offset: Tensor) -> Tensor:
    """The l2 norm of every sample, [sample, 1, 1, 1], never zero."""
    length: Tensor = torch.linalg.vector_norm(offset.flatten(1), dim=1)
    return length.clamp_min(1e-12).reshape(-1, 1, 1, 1)


@contextmanager
def in_eval_mode(model: nn.Module) -> Iterator[None]:
    """Within this block the model is as it will be used: BatchNorm's statistics rest, dropout is off."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@attrs.frozen(kw_only=True, eq=False)
class Crafting:
    """How the examples of one training are made.

    Attributes:
        epsilon: Radius.
        step: Size of a step.
        steps: Number of steps.
        norm: ``linf`` or ``l2``.
        bounds: Smallest and largest valid pixel value.
        generator: Draws the starting points.
    """

    epsilon: float
    step: float
    steps: int
    norm: Norm
    bounds: tuple[float, float]
    generator: torch.Generator

    def __call__(self, model: nn.Module, images: Tensor, labels: Tensor, targeted: bool = False) -> Tensor:
        """Examples of a model in eval mode, [sample, channel, height, width]; arguments as of PGD."""
        with in_eval_mode(model):
            return strongest_nearby(
                model,
                images,
                labels,
                epsilon=self.epsilon,
                step=self.step,
                steps=self.steps,
                bounds=self.bounds,
                generator=self.generator,
                norm=self.norm,
                targeted=targeted,
            )
