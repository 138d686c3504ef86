"""What an attack gives back: inside ball and box, whatever the images, labels and models look like."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import torch
from torch import Tensor, nn

from unmask.dimensions import Status
from unmask.testing.attacks.setting import AttackSubject, radius, sizes, whole_box
from unmask.testing.known import Constant, Linear, ZeroBackward, linear_problem
from unmask.testing.laws import require

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["CHECKS"]


@attrs.frozen(eq=False)
class Corner:
    """A corner of what users come with.

    Attributes:
        shape: Of an image, (channel, height, width).
        classes: Number of logits.
        samples: Number of images; a third of them are clean errors.
        labels: The labels' integer type.
        scale: The logits are multiplied by it: a confident model.
        shift: It is added to all logits, which changes no answer.
    """

    shape: tuple[int, int, int]
    classes: int
    samples: int = 6
    labels: Any = torch.int64
    scale: float = 1.0
    shift: float = 0.0

    def problem(self) -> tuple[nn.Module, Tensor, Tensor]:
        """A linear model, images of which many pixels lie on the border of the box, and labels."""
        generator = torch.Generator().manual_seed(self.classes)
        size = math.prod(self.shape)
        weight = torch.randn(self.classes, size, generator=generator) * (self.scale / math.sqrt(size))
        model = Linear(weight, torch.full((self.classes,), self.shift)).eval()
        images = (0.5 + 0.5 * torch.randn((self.samples, *self.shape), generator=generator)).clamp(0, 1)
        with torch.no_grad():
            labels = model(images).argmax(1)
        wrong = self.samples // 3
        labels[:wrong] = (labels[:wrong] + 1) % self.classes
        return model, images, labels

    @property
    def shown(self) -> str:
        """For messages."""
        return f"images of shape {self.shape} in {self.classes} classes"


CORNERS = (
    Corner((1, 1, 1), 2, samples=1),
    Corner((1, 1, 5), 3, labels=torch.int32, scale=2.0**10),
    Corner((3, 2, 2), 4, labels=torch.int8, shift=1000.0),
    Corner((2, 5, 3), 12, labels=np.uint8),
    Corner((1, 7, 7), 2, scale=2.0**10, shift=1000.0),
)


def _corners(subject: AttackSubject) -> list[tuple[Corner, Tensor, xr.Dataset]]:
    def compute() -> list[tuple[Corner, Tensor, xr.Dataset]]:
        found = []
        for corner in CORNERS:
            model, images, labels = corner.problem()
            largest = radius(subject.norm, math.prod(corner.shape))
            given = (
                labels.to(corner.labels)
                if isinstance(corner.labels, torch.dtype)
                else labels.numpy().astype(corner.labels)
            )
            epsilons = [0.0, largest / 3, largest]
            found.append((corner, images, subject.evaluated(model, images, given, epsilons)))
        return found

    return subject.once("corners", compute)


def stays_in_ball_and_box(subject: AttackSubject) -> None:
    """Every final example is finite and lies inside ball and box."""
    remedies = {
        Status.BUDGET_VIOLATION: "Return budget.project(examples, around=images), or task.ball.project.",
        Status.BOX_VIOLATION: "Clamp to budget.bounds, or return budget.project(examples, around=images).",
        Status.NON_FINITE: "Divide by nothing that can be zero, and look at gradients for NaN and infinity.",
    }
    what = {
        Status.BUDGET_VIOLATION: f"left the {subject.norm} ball",
        Status.BOX_VIOLATION: "left the box",
        Status.NON_FINITE: "are NaN or infinite",
    }
    for corner, images, results in _corners(subject):
        for status, words in what.items():
            count = int((results["status"] == status).any(("model", "attack", "epsilon")).sum())
            require(
                count == 0,
                f"the final examples of {count} of {corner.samples} samples {words}, on {corner.shown}",
                remedies[status],
            )
        examples = results["adversarial"].values.astype(np.float64)
        moved = (examples - images.numpy().astype(np.float64)).reshape(*examples.shape[:4], -1)
        lengths = sizes(moved, subject.norm)
        inside = (
            (lengths <= results["epsilon"].values[:, None]).all()
            and examples.min() >= 0
            and examples.max() <= 1
        )
        require(
            inside,
            f"what was stored is not inside ball and box, on {corner.shown}",
            "Report this: it is unmask's own.",
        )


def does_nothing_at_radius_zero(subject: AttackSubject) -> None:
    """At radius zero every image stays as it is, and so does its answer."""
    for corner, images, results in _corners(subject):
        nothing = results.isel(epsilon=0)
        same = (nothing["adversarial"].values == images.numpy()).all()
        require(
            same and bool((nothing["correct"] == nothing["clean_correct"]).all()),
            f"images moved although the radius is zero, on {corner.shown}",
            "Scale every step with budget.epsilon, and project.",
        )


def leaves_clean_errors_alone(subject: AttackSubject) -> None:
    """A sample that is wrong without an attack costs no query, keeps its image and counts as not robust."""
    for corner, images, results in _corners(subject):
        wrong = results["clean_correct"].values[0] == 0
        there = results.isel(sample=np.flatnonzero(wrong))
        kept = (there["adversarial"].values == images.numpy()[wrong]).all()
        require(
            kept
            and bool((there["forwards"] == 0).all())
            and bool((there["status"] == Status.CLEAN_ERROR).all()),
            f"a sample that was wrong at the start was attacked, on {corner.shown}",
            "Ask the model through the target that was given, and return one example for every image.",
        )


def never_raises_accuracy(subject: AttackSubject) -> None:
    """Accuracy under attack is never above clean, and never rises with the radius."""
    for corner, _, results in _corners(subject):
        correct = results["correct"].values
        require(
            (correct <= results["clean_correct"].values[:, None, None]).all()
            and (np.diff(correct, axis=2) <= 0).all(),
            f"accuracy is above clean, or rises with the radius, on {corner.shown}",
            "Report this: it is unmask's own.",
        )


def takes_labels_of_any_integer_type(subject: AttackSubject) -> None:
    """The outcome does not depend on the integer type that labels come in."""
    model, images, labels = linear_problem(n=4)
    epsilon = radius(subject.norm, 12)
    kinds: dict[str, Any] = {
        "int64": labels,
        "uint8": labels.to(torch.uint8),
        "int16": labels.to(torch.int16),
        "NumPy's int32": labels.numpy().astype(np.int32),
    }
    outcomes = {kind: subject.evaluated(model, images, given, [epsilon]) for kind, given in kinds.items()}
    for kind, results in outcomes.items():
        same = (results["adversarial"].values == outcomes["int64"]["adversarial"].values).all()
        require(
            same, f"labels as {kind} give other examples than as int64", "Use the labels you are called with."
        )


def takes_other_bounds(subject: AttackSubject) -> None:
    """Pixel values may lie in any bounds: the box is that of the ball, not always [0, 1]."""
    low, high = -2.0, 3.0
    model, images, _ = linear_problem(n=6)
    images = low + (high - low) * images
    with torch.no_grad():
        labels = model(images).argmax(1)
    epsilon = radius(subject.norm, 12) * (1.0 if subject.norm == "l0" else high - low)
    results = subject.evaluated(model, images, labels, [epsilon], bounds=(low, high))
    bad = np.isin(
        results["status"].values, (Status.BUDGET_VIOLATION, Status.BOX_VIOLATION, Status.NON_FINITE)
    )
    require(
        not bad.any(),
        f"with pixel values in [{low}, {high}] the final examples of {int(bad.any((0, 1, 2)).sum())} of 6 "
        "samples "
        "left ball or box",
        "Use budget.bounds (in steps task.ball.bounds), or budget.project, instead of clamping to [0, 1].",
    )


def finds_what_is_everywhere(subject: AttackSubject) -> None:
    """An attack finds something where about half of all valid images are adversarial."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(1, 16, generator=generator)
    images = 0.5 + 0.002 * torch.randn(24, 1, 4, 4, generator=generator)
    weight = torch.cat([weight, -weight])
    model = Linear(weight, -0.5 * weight.sum(1)).eval()
    with torch.no_grad():
        labels = model(images).argmax(1)
    results = subject.evaluated(model, images, labels, [whole_box(subject.norm, 16)])
    require(
        bool((results["correct"] == 0).any()),
        "it broke none of 24 samples of a linear model that lie next to its border, in a ball as large as "
        "the box",
        "Climb the loss (away from the label), show what you find to the target, and return it. If it only "
        "needs more steps or queries than it was tested with, say so: "
        'conformance(name, options={"steps": 20}).',
    )


def survives_ties_and_zero_gradients(subject: AttackSubject) -> None:
    """Tied logits and gradients of zero neither crash an attack nor count as a success."""
    images = torch.rand(3, 1, 2, 3, generator=torch.Generator().manual_seed(0))
    epsilon = radius(subject.norm, 6)
    tied = subject.evaluated(
        Constant(1.0, 1.0, 1.0).eval(), images, torch.zeros(3, dtype=torch.int64), [epsilon]
    )
    # The first of several largest logits is the prediction, everywhere.
    require(
        bool((tied["correct"] == 1).all()) and bool((tied["prediction"] == 0).all()),
        "a model that always answers class 0 was counted as broken",
        "Report this: it is unmask's own.",
    )
    model, _, _ = linear_problem(shape=(1, 2, 3))
    with torch.no_grad():
        labels = model(images).argmax(1)
    results = subject.evaluated(nn.Sequential(ZeroBackward(), model).eval(), images, labels, [epsilon / 10])
    bad = np.isin(
        results["status"].values, (Status.BUDGET_VIOLATION, Status.BOX_VIOLATION, Status.NON_FINITE)
    )
    require(
        not bad.any(),
        "where the gradient is zero its examples leave ball or box, or are not finite",
        "Divide a gradient by its norm only where the norm is not zero: task.ball.steepest does.",
    )
    if results.sizes["attack"] > 1:
        return  # a suite: its stages differ in what they ask for
    # A nearest search may have stumbled on an example that is farther away.
    nowhere = np.isinf(results["distance"].values) | (subject.entry.search == "within")
    blind = (results["backwards"].values > 0) & (results["correct"].values == 1) & nowhere
    told = results["status"].values == Status.ZERO_GRADIENT
    require(
        (told == blind).all(),
        "a gradient of zero everywhere was not told as the status zero_gradient",
        "Take gradients through the target alone, so that it sees them.",
    )


CHECKS = (
    stays_in_ball_and_box,
    does_nothing_at_radius_zero,
    leaves_clean_errors_alone,
    never_raises_accuracy,
    takes_labels_of_any_integer_type,
    takes_other_bounds,
    finds_what_is_everywhere,
    survives_ties_and_zero_gradients,
)
