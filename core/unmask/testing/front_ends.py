"""The laws for front ends, among them: what an entry declares is true."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unmask.models.defended import Defended
from unmask.models.initialisation import seeded
from unmask.models.surrogates import surrogate_of
from unmask.testing.known import small_net
from unmask.testing.laws import LawBroken, require
from unmask.testing.models import CLASSES, check_door, check_guest, images_for
from unmask.testing.subject import Subject

__all__ = ["CHECKS"]

_DRAWS = 6
_STEP = 1e-6


def _built(subject: Subject) -> nn.Module:
    def compute() -> nn.Module:
        on_offer = {option.parameter for option in subject.options_on_offer()}
        supplied = {}
        if "image_channels" in on_offer and "image_channels" not in subject.options:
            supplied["image_channels"] = subject.image[0]
        with seeded(0):
            front_end: nn.Module = subject.build(**supplied)
        return front_end

    return subject.once("built", compute)


def _shown(front_end: nn.Module, images: Tensor, seed: int) -> Tensor:
    with torch.no_grad(), seeded(seed):
        shown: Tensor = front_end(images.clone())
    return shown


def maps_images_to_images(subject: Subject) -> None:
    """A front end gives finite images of the same number and channels, for any number of images."""
    front_end, images = _built(subject), images_for(subject)
    for count in (len(images), 1):
        shown = _shown(front_end, images[:count], 1)
        require(
            isinstance(shown, Tensor) and shown.shape[:2] == images[:count].shape[:2] and shown.ndim == 4,
            f"of {tuple(images[:count].shape)} it makes {tuple(shown.shape)}",
            "Return images [sample, channel, height, width] with samples and channels as they came.",
        )
        require(
            shown.dtype == images.dtype and bool(torch.isfinite(shown).all()),
            f"it gives {shown.dtype}, or numbers that are not finite, for float32 images in [0, 1]",
            "Keep the dtype of the images, and look for divisions and roots at zero.",
        )


def changes_nothing_when_called(subject: Subject) -> None:
    """A call in eval mode changes neither the front end nor the images."""
    check_guest(_built(subject), images_for(subject))


def is_taken_by_an_evaluation(subject: Subject) -> None:
    """An evaluation takes it before a classifier: nothing about it is refused."""
    backbone = small_net(subject.image[0], CLASSES)
    check_door(Defended(_built(subject), backbone).eval(), images_for(subject))


def declares_truly_whether_it_is_stochastic(subject: Subject) -> None:
    """`stochastic` says whether it draws random numbers at evaluation."""
    front_end, images = _built(subject), images_for(subject)
    shown = [_shown(front_end, images, seed) for seed in range(_DRAWS)]
    varies = any(other.shape != shown[0].shape or not torch.equal(other, shown[0]) for other in shown[1:])
    require(
        varies == subject.entry.stochastic,
        "its answers to the same images differ"
        if varies
        else f"{_DRAWS} answers to the same images are equal",
        f"Declare stochastic={varies} in its FrontEndEntry, or give the option that makes it draw.",
    )


def declares_truly_whether_it_is_differentiable(subject: Subject) -> None:
    """`differentiable` says whether its gradient tells how its output changes."""
    front_end = _built(subject).double()
    # Neither black nor white, where whatever sorts or cuts pixel values has ties.
    images = images_for(subject)[2:].double()
    direction = torch.randn(images.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    try:
        with torch.enable_grad(), seeded(7):
            x = images.clone().requires_grad_()
            shown = front_end(x)
            weights = torch.randn(
                shown.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64
            )
            flows = shown.requires_grad
            gradient = torch.autograd.grad((shown * weights).sum(), x)[0] if flows else torch.zeros_like(x)
        ahead, behind = (_shown(front_end, images + sign * _STEP * direction, 7) for sign in (1, -1))
    finally:
        front_end.float()
    measured = ((ahead - behind) * weights).sum().item() / (2 * _STEP)
    predicted = (gradient * direction).sum().item()
    exact = flows and abs(measured - predicted) <= 1e-3 * max(abs(measured), abs(predicted)) + 1e-6
    if subject.entry.differentiable:
        require(
            exact,
            f"along a random direction its output changes by {measured:.6g} and its gradient says "
            f"{predicted:.6g}",
            "Declare differentiable=False in its FrontEndEntry, with a surrogate for the backward pass if "
            "there is "
            "one; or let the true gradient through.",
        )
    else:
        # Where the output is constant in steps a gradient of zero is exact, and of no use.
        require(
            not exact or predicted == 0,
            "its gradient tells exactly how its output changes, although it is declared not to be "
            "differentiable",
            "Declare differentiable=True in its FrontEndEntry.",
        )


def has_a_surrogate_that_works(subject: Subject) -> None:
    """Its surrogate, where there is one, is differentiable and gives images of the front end's own kind."""
    front_end = _built(subject)
    surrogate = surrogate_of(front_end)
    if surrogate is None:
        return
    images = images_for(subject).requires_grad_()
    with torch.enable_grad(), seeded(8):
        stand_in = surrogate(images)
        require(
            isinstance(stand_in, Tensor) and stand_in.shape[:2] == images.shape[:2] and stand_in.ndim == 4,
            "its surrogate does not give images [sample, channel, height, width]",
            "Let the surrogate map images to images.",
        )
        if not stand_in.requires_grad:
            raise LawBroken("no gradient flows through its surrogate", "Use differentiable operations in it.")
        (gradient,) = torch.autograd.grad(stand_in.sum(), images)
    require(
        bool(torch.isfinite(gradient).all()) and bool((gradient != 0).any()),
        "the gradient of its surrogate is zero, or not finite",
        "The surrogate stands for the front end in the backward pass: let a useful gradient through.",
    )


CHECKS = (
    maps_images_to_images,
    changes_nothing_when_called,
    is_taken_by_an_evaluation,
    declares_truly_whether_it_is_stochastic,
    declares_truly_whether_it_is_differentiable,
    has_a_surrogate_that_works,
)
