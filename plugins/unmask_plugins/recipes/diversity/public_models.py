"""Training against what an attacker can prepare on models that anybody can download."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unmask_plugins.recipes.inner_maximisation import Crafting
from unmask_plugins.recipes.loop import right_answers

__all__ = ["Weighting", "public_models_losses"]

Weighting = Literal["all", "random", "hardest"]


def public_models_losses(
    model: nn.Module, sources: Sequence[nn.Module], weighting: Weighting, craft: Crafting, clean: float
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The loss of PubDef (Sitawarin, Chang, Huang, Altoyan & Wagner 2024).

        clean * CE(f(x), y) + sum_i p_i CE(f(x_i), y),    sum_i p_i = 1

    x_i is an adversarial example of the public model i, made without any knowledge of f. ``all``: equal
    weights p. ``random``: weight 1 for one public model, drawn for every batch, as cheap as plain adversarial
    training. ``hardest``: weight 1 for the one with the largest loss, image by image.

    Args:
        model: f, in train mode.
        sources: The public models.
        weighting: The weights p.
        craft: Makes the examples.
        clean: Weight of the clean images.
    """

    def losses(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        chosen = list(sources)
        if weighting == "random":
            chosen = [chosen[int(torch.randint(len(chosen), (), generator=craft.generator))]]
        answers = [model(craft(source, images, labels)) for source in chosen]
        each = torch.stack([cross_entropy(a, labels, reduction="none") for a in answers])
        loss = (each.amax(0) if weighting == "hardest" else each.mean(0)).mean()
        if clean:
            loss = loss + clean * cross_entropy(model(images), labels)
        return loss, torch.stack([right_answers(a, labels) for a in answers]).mean()

    return losses
