"""The laws for data sets."""

from __future__ import annotations

import torch
from torch import nn

from unmask.data import LabelledImages
from unmask.errors import UserError
from unmask.evaluation.inputs import check_samples
from unmask.testing.laws import LawBroken, require
from unmask.testing.subject import Subject
from unmask.testing.world import World

__all__ = ["CHECKS"]


def _built(subject: Subject) -> LabelledImages:
    data: LabelledImages = subject.once("built", subject.build)
    return data


def gives_labelled_images(subject: Subject) -> None:
    """Data are float images [sample, channel, height, width] in their bounds, with class indices and ids."""
    data = _built(subject)
    require(
        len(data) > 0, "it has no samples", "Give options that leave some: conformance(name, options=...)."
    )
    try:
        check_samples(data.images, data.labels, data.bounds, data.ids)
    except UserError as error:
        raise LawBroken(f"an evaluation refuses them: {error}", "Do as the message says.") from error
    require(
        data.images.dtype == torch.float32,
        f"its images are {data.images.dtype}",
        "Give float32; 8-bit images divided by 255.",
    )
    require(
        len(data.ids.unique()) == len(data) == len(data.labels),
        f"{len(data)} images have {len(data.labels)} labels and {len(data.ids.unique())} different ids",
        "Give every sample one label, and the data set's own index as its id.",
    )
    require(data.name.strip(), "it has no name", "Name it, for reports: LabelledImages(..., name=...).")


def gives_the_same_again(subject: Subject) -> None:
    """The same options give the same samples, and no global random state is touched."""
    first = _built(subject)
    world = World.of(nn.Module())
    second: LabelledImages = subject.build()
    changed = world.changed()
    world.restore()
    require(not changed, f"reading them changed {', '.join(changed)}", "Use a generator of your own, seeded.")
    same = all(
        torch.equal(getattr(first, part), getattr(second, part)) for part in ("images", "labels", "ids")
    )
    require(
        same,
        "read again they are others, or in another order",
        "Sort what a folder lists; shuffle with a fixed seed or not at all.",
    )


def keeps_training_and_test_apart(subject: Subject) -> None:
    """Where there is an option `split`, no image is both for training and for test."""
    on_offer = {option.parameter for option in subject.options_on_offer()}
    if "split" not in on_offer:
        return
    test: LabelledImages = subject.build(split="test")
    try:
        train: LabelledImages = subject.build(split="train")
    except LawBroken:
        return  # it has no training part here
    require(
        train.images.shape[1:] == test.images.shape[1:] and train.bounds == test.bounds,
        f"training images are {tuple(train.images.shape[1:])}, test images {tuple(test.images.shape[1:])}",
        "Give both parts in the same form.",
    )
    seen = {row.numpy().tobytes() for row in train.images}
    both = sum(row.numpy().tobytes() in seen for row in test.images)
    require(
        both <= len(test) // 100,
        f"{both} of {len(test)} test images are among the training images",
        "Choose the two parts by the data set's own division, or by a rule that no image passes twice.",
    )


CHECKS = (gives_labelled_images, gives_the_same_again, keeps_training_and_test_apart)
