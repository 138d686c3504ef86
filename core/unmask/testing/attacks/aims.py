"""Targeted runs: the target is reached or not, and it is told which."""

from __future__ import annotations

import numpy as np
import torch

from unmask.testing.attacks.setting import AttackSubject, radius, whole_box
from unmask.testing.known import Linear, linear_problem
from unmask.testing.laws import LawBroken, require

__all__ = ["CHECKS"]

_REMEDY = (
    "In a targeted run task.targets (target.targets of a plain call) holds the class every row is to reach: "
    "descend towards it. Where the attack cannot, declare targeted = False. If it only needs more steps than "
    'it was tested with, say so: conformance(name, options={"steps": 20}).'
)


def reaches_its_target_or_is_told_not_to(subject: AttackSubject) -> None:
    """In a targeted run success is the target's class, and a sample that is of that class is not attacked."""
    if not subject.entry.targeted:
        return
    model, images, _ = linear_problem(n=8)
    with torch.no_grad():
        labels = model(images).argmax(1)
    aimed = subject.configured(targeted=True, target=1)
    try:
        results = subject.evaluated(model, images, labels, [radius(subject.norm, 12)], attack=aimed, seed=1)
    except LawBroken as broken:
        raise LawBroken(f"towards a target {broken.found}", _REMEDY) from broken
    reached = results["target_reached"].values[0, -1, 0]
    prediction = results["prediction"].values[0, -1, 0]
    free = (labels != 1).numpy()
    require(
        np.isnan(reached[~free]).all() and (results["forwards"].values[0, -1, 0][~free] == 0).all(),
        "samples whose label is the target were attacked",
        "Ask the model through the target that was given.",
    )
    require(
        (reached[free] == (prediction[free] == 1)).all(),
        "what is told as reached is not what the model answers",
        "Report this: it is unmask's own.",
    )


def aims_at_the_target(subject: AttackSubject) -> None:
    """A targeted run goes for its target, also where another class is nearer."""
    if not subject.entry.targeted:
        return
    generator = torch.Generator().manual_seed(3)
    weight = 2 * torch.randn(16, generator=generator)
    # From class 0, along the weight to class 1 close by, against it to class 2 five times as far.
    rows = torch.stack([torch.zeros(16), weight, -weight])
    model = Linear(rows, -0.5 * rows.sum(1) - torch.tensor([0.0, 0.2, 1.0])).eval()
    images = 0.5 + 0.002 * torch.randn(24, 1, 4, 4, generator=generator)
    labels = torch.zeros(24, dtype=torch.int64)
    task = subject.task(model, images, labels, whole_box(subject.norm, 16), targets=torch.full((24,), 2))
    runs = subject.returned(task, subject.configured(targeted=True, target=2))
    with torch.no_grad():
        predictions = torch.stack([model(examples).argmax(1) for examples in runs])
    hit = (predictions == 2).any(0)
    reached, elsewhere = int(hit.sum()), int(((predictions == 1).any(0) & ~hit).sum())
    require(
        reached > elsewhere,
        f"of 24 samples of a linear model, in a ball as large as the box, {reached} reached the target and "
        f"{elsewhere} ended in another class that was nearer",
        _REMEDY,
    )


CHECKS = (reaches_its_target_or_is_told_not_to, aims_at_the_target)
