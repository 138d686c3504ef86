"""The laws for models; also the ones that ensembles share, being models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unmask.errors import UserError
from unmask.evaluation.evaluate import evaluate
from unmask.models.data_facts import SUPPLIED
from unmask.models.initialisation import seeded
from unmask.testing.laws import LawBroken, require
from unmask.testing.subject import Subject
from unmask.testing.world import World

__all__ = ["CHECKS", "CLASSES", "check_classifier", "check_door", "check_guest", "images_for"]

CLASSES = 5
"""How many classes a model is asked for, where it takes that as an option."""


def images_for(subject: Subject, count: int = 5) -> Tensor:
    """Images in [0, 1], black and white ones among them."""
    images = torch.rand((count, *subject.image), generator=torch.Generator().manual_seed(0))
    if count > 2:
        images[0], images[1] = 0.0, 1.0
    return images


def _built(subject: Subject) -> nn.Module:
    def compute() -> nn.Module:
        channels, height, width = subject.image
        facts: dict[str, Any] = {
            "image_channels": channels,
            "image_size": height if height == width else (height, width),
            "classes": CLASSES,
        }
        on_offer = {option.parameter for option in subject.options_on_offer()}
        # As a run does: what the data tell and nobody else says.
        supplied = {
            name: facts[name] for name in SUPPLIED if name in on_offer and name not in subject.options
        }
        with seeded(0):
            model: nn.Module = subject.build(**supplied)
        return model

    return subject.once("built", compute)


def check_classifier(model: nn.Module, images: Tensor, classes: int | None) -> None:
    """Logits [sample, class], finite, and for every row its own."""
    training = [name or type(model).__name__ for name, module in model.named_modules() if module.training]
    require(
        not training,
        f"after it was built these parts are in training mode: {', '.join(training[:3])}",
        "Let train(False) reach every module: register children as attributes or in containers of torch.nn.",
    )
    with torch.no_grad():
        for count in (len(images), 1, 2):
            logits = model(images[:count].clone())
            right = isinstance(logits, Tensor) and logits.ndim == 2 and len(logits) == count
            require(
                right and logits.is_floating_point() and logits.shape[1] >= 2,
                f"for {count} images it returned {_described(logits)}",
                "Return floating-point logits [sample, class] with at least two classes, for any number of "
                "images.",
            )
            require(
                classes is None or logits.shape[1] == classes,
                f"it was asked for {classes} classes and returned {logits.shape[1]} logits",
                "Make the last layer as wide as the option `classes` says.",
            )
            require(
                bool(torch.isfinite(logits).all()),
                "its logits are not finite on images in [0, 1]",
                "Images come in [0, 1]: normalise inside the model, and divide by no zero deviation.",
            )


def _described(value: object) -> str:
    return f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def check_guest(model: nn.Module, images: Tensor) -> None:
    """A call changes nothing: neither weights and buffers, nor the images."""
    world, shown = World.of(model), images.clone()
    with torch.no_grad(), seeded(1):
        model(shown)
    changed = world.changed()
    world.restore()
    require(
        not changed,
        f"one call in eval mode changed {', '.join(changed)}",
        "Change buffers in training mode alone; then its answers do not depend on what it was asked before.",
    )
    require(
        torch.equal(shown, images),
        "it writes into the images it is given",
        "Use no in-place operation on them.",
    )


def check_door(model: nn.Module, images: Tensor) -> None:
    """An evaluation takes the model: logits, not probabilities, and whatever else is refused in words."""
    with torch.no_grad(), seeded(2):
        labels = model(images.clone()).argmax(1)

    def still(target: Any, images: Tensor, labels: Tensor, budget: Any, random: Any) -> Tensor:
        target(images)
        return images

    try:
        results = evaluate(
            {"model": model}, images, labels, {"still": still}, [0.01], prepare="eager", draws=8
        )
    except UserError as error:
        raise LawBroken(f"an evaluation refuses it: {error}", "Do as the message says.") from error
    messages = [text for text in results["message"].values.ravel().tolist() if text]
    require(not messages, f"an evaluation of it failed: {'; '.join(messages)}", "Do as the message says.")


def answers_with_logits(subject: Subject) -> None:
    """A model is built in eval mode and maps images [0, 1], NCHW, to finite logits [sample, class]."""
    on_offer = {option.parameter for option in subject.options_on_offer()}
    asked = subject.options.get("classes", CLASSES) if "classes" in on_offer else None
    check_classifier(_built(subject), images_for(subject), asked)


def is_taken_by_an_evaluation(subject: Subject) -> None:
    """An evaluation takes what is built: nothing about it is refused."""
    check_door(_built(subject), images_for(subject))


def changes_nothing_when_called(subject: Subject) -> None:
    """A call in eval mode changes neither the model nor the images."""
    check_guest(_built(subject), images_for(subject))


def gives_every_row_its_own_answer(subject: Subject) -> None:
    """The answer for an image does not depend on the other images of the batch."""
    model, images = _built(subject), images_for(subject)
    with torch.no_grad():
        with seeded(3):
            together = model(images.clone())
        with seeded(4):
            again = model(images.clone())
        if not torch.allclose(together, again, rtol=1e-4, atol=1e-5):
            return  # it answers at random
        alone = torch.cat([model(image[None].clone()) for image in images])
    scale = float(together.abs().max().clamp_min(1.0))
    require(
        bool(((alone - together).abs() <= 1e-3 * scale).all()),
        f"alone and in a batch its logits differ by up to {float((alone - together).abs().max()):.3g}",
        "Use running statistics in eval mode; let no layer look across the batch.",
    )


def lets_finite_gradients_through(subject: Subject) -> None:
    """Where gradients flow from the logits to the image they are finite and of its shape."""
    model = _built(subject)
    images = images_for(subject).requires_grad_()
    with torch.enable_grad(), seeded(5):
        logits = model(images)
        if not logits.requires_grad:
            return
        (gradient,) = torch.autograd.grad(logits.sum(), images, allow_unused=True)
    require(
        gradient is None or bool(torch.isfinite(gradient).all()),
        "its gradient is NaN or infinite on black, white or random images",
        "Look for a square root, logarithm or division at zero, which a black image reaches.",
    )


def draws_its_weights_from_the_global_generators(subject: Subject) -> None:
    """The same seed gives the same initial weights, so that a manifest says which model it means."""
    states = [_built(subject).state_dict()]
    subject_again = Subject(subject.kind, subject.provided, subject.options, subject.image, subject.members)
    states.append(_built(subject_again).state_dict())
    differing = [name for name, tensor in states[0].items() if not torch.equal(tensor, states[1][name])]
    require(
        not differing,
        f"built twice from the same seed it has other weights: {', '.join(differing[:3])}",
        "Initialise from torch's, NumPy's or Python's global generators (a run seeds them), not from fresh "
        "ones.",
    )


CHECKS = (
    answers_with_logits,
    is_taken_by_an_evaluation,
    changes_nothing_when_called,
    gives_every_row_its_own_answer,
    lets_finite_gradients_through,
    draws_its_weights_from_the_global_generators,
)
