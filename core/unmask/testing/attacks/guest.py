"""Model and world are as before: seen without the evaluation that would put them back."""

from __future__ import annotations

import torch

from unmask.testing.attacks.setting import AttackSubject, radius
from unmask.testing.known import linear_problem, small_net
from unmask.testing.laws import LawBroken, require
from unmask.testing.world import World

__all__ = ["CHECKS"]


def leaves_the_model_and_the_world_alone(subject: AttackSubject) -> None:
    """Weights, buffers, flags, gradients and the global random states stay as they are."""
    model = small_net(2)
    # As in an evaluation, where no parameter asks for a gradient.
    model.requires_grad_(False)
    images = torch.rand(4, 2, 3, 5, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        labels = model(images).argmax(1)
    task = subject.task(model, images, labels, radius(subject.norm, 30))
    world = World.of(model)
    subject.returned(task)
    changed = world.changed()
    world.restore()
    require(
        not changed,
        f"a run changed {', '.join(changed)}",
        "Ask the model through the target alone, and draw from the streams you are given alone.",
    )


def takes_empty_and_single_batches(subject: AttackSubject) -> None:
    """A batch may have one image, or none at all."""
    model, images, labels = linear_problem(n=6)
    # Those that are right when clean.
    task = subject.task(model, images, labels, radius(subject.norm, 12))
    for rows in (torch.tensor([], dtype=torch.int64), torch.tensor([4])):
        try:
            found = subject.returned(task.select(rows))
        except LawBroken as broken:
            raise LawBroken(
                broken.found,
                "Return early where there are no rows, and keep the batch axis where there is one.",
            ) from broken.__cause__
        shapes = {tuple(examples.shape) for examples in found}
        require(
            shapes <= {(len(rows), *images.shape[1:])},
            f"for {len(rows)} images it returned shapes {sorted(shapes)}",
            "Return one example for every image: no squeeze() without an axis.",
        )


CHECKS = (leaves_the_model_and_the_world_alone, takes_empty_and_single_batches)
