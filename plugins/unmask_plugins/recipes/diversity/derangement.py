"""Each model errs in a way of its own: adversarial examples are taught as another wrong class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unmask.errors import UserError
from unmask_plugins.recipes.inner_maximisation import Crafting
from unmask_plugins.recipes.loop import right_answers

__all__ = ["Derangement", "deranged_losses", "derangement_of"]

Derangement = int | Literal["drawn"] | Sequence[int]


def derangement_of(said: Derangement, classes: int, generator: torch.Generator) -> Tensor:
    """A permutation d of the classes without a fixed point, int64 [class].

    Args:
        said: A number k: d(c) = c + k modulo the number of classes, so that two members with different
            numbers agree nowhere. A list: d itself. ``drawn``: uniformly among all.
        classes: Number of classes.
        generator: Draws it.

    Raises:
        UserError: It is no derangement of so many classes.
    """
    if isinstance(said, str):
        while True:  # a random permutation has no fixed point with probability of about 1/e
            drawn = torch.randperm(classes, generator=generator)
            if not bool((drawn == torch.arange(classes)).any()):
                return drawn
    if isinstance(said, int):
        if said % classes == 0:
            raise UserError(
                f"{said} leaves every one of the {classes} classes where it is. Write a number from 1 to "
                f"{classes - 1}.",
                where="derangement",
            )
        return (torch.arange(classes) + said) % classes
    found = torch.tensor(list(said), dtype=torch.int64)
    if sorted(found.tolist()) != list(range(classes)) or bool((found == torch.arange(classes)).any()):
        raise UserError(
            f"{list(said)} is no derangement of the {classes} classes: it has to name each class from 0 to "
            f"{classes - 1} once, and none in its own place.",
            where="derangement",
        )
    return found


def deranged_losses(
    model: nn.Module,
    sources: Sequence[nn.Module],
    d: Tensor,
    craft: Crafting,
    clean: float,
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The loss of a topologically manipulated classifier (Sharif, Bauer & Reiter 2019, n-ML).

        clean * CE(f(x), y) + CE(f(x'), d(t))

    x' is x driven towards the class t != y, drawn for every image; d is the derangement that is the model's
    own. So x' is classified as d(t), by members with different derangements as different classes, and no
    vote of them is won by t. x' is made on one of the `sources`, drawn for every batch (ordinarily trained
    models, in the paper), or on the model itself where there are none.

    Args:
        model: f, in train mode.
        sources: What the examples are made on.
        d: The derangement [class].
        craft: Makes the examples.
        clean: Weight of the clean images.
    """
    classes = len(d)

    def losses(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        draws = craft.generator
        away = torch.randint(1, classes, (len(labels),), generator=draws).to(labels.device)
        targets = (labels + away) % classes
        source = model
        if sources:
            source = sources[int(torch.randint(len(sources), (), generator=draws))]
        answers = model(craft(source, images, targets, targeted=True))
        wanted = d.to(labels.device)[targets]
        loss = cross_entropy(answers, wanted)
        if clean:
            loss = loss + clean * cross_entropy(model(images), labels)
        return loss, right_answers(answers, wanted)

    return losses
