"""The laws for gradient sources."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unmask.evaluation.task import Slope, Task
from unmask.models.defended import Defended
from unmask.testing.doors import task_of
from unmask.testing.known import Linear, ZeroBackward, linear_problem
from unmask.testing.laws import require
from unmask.testing.subject import Subject
from unmask.testing.world import World

__all__ = ["CHECKS"]

_AVERAGED = 16
"""Estimates that are averaged before their direction is looked at."""


def _margin(logits: Tensor, goals: Tensor) -> Tensor:
    """Logit of class 1 minus that of class 0: an affine function of the image where the model is linear."""
    del goals
    return logits[:, 1] - logits[:, 0]


def _problem(front_end: nn.Module | None = None) -> tuple[Task, Tensor]:
    """A linear model behind the identity, so that sources that go round a front end have one."""
    linear, images, labels = linear_problem(n=6, shape=(2, 3, 4))
    model = Defended(front_end or nn.Identity(), linear).eval().requires_grad_(False)
    return task_of(model, images, labels), images


def _asked(subject: Subject, task: Task, x: Tensor, source: Any = None) -> Slope:
    source = source or subject.build()
    with torch.enable_grad():
        slope = source(task, x, _margin)
    require(isinstance(slope, Slope), f"it returned {type(slope).__name__}", "Return an unmask.Slope.")
    found: Slope = slope
    return found


def _true(task: Task) -> Tensor:
    """The gradient of `_margin`, the same for every sample."""
    member = task.target.members
    assert member is not None
    x = task.x.clone().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(_margin(task.target(x), task.goals).sum(), x)
    return gradient


def tells_gradient_loss_and_logits(subject: Subject) -> None:
    """A source tells for every row the gradient of the loss, the loss itself and the logits."""
    task, x = _problem()
    slope = _asked(subject, task, x)
    with torch.no_grad():
        logits = task.target(x)
    require(
        slope.gradient.shape == x.shape and bool(torch.isfinite(slope.gradient).all()),
        f"its gradient is {slope.gradient.dtype} {tuple(slope.gradient.shape)} for images {tuple(x.shape)}, "
        "or not finite",
        "Return one finite gradient for every image.",
    )
    require(
        slope.logits.shape == logits.shape
        and torch.allclose(slope.logits.to(logits.dtype), logits, atol=1e-5),
        "its logits are not the model's answer at the point",
        "Ask the target at x itself and return that answer.",
    )
    require(
        slope.loss.shape == (len(x),)
        and torch.allclose(slope.loss.to(logits.dtype), _margin(logits, task.goals), atol=1e-4),
        "its loss is not that of the point",
        "Return loss(logits, task.goals), [sample].",
    )


def is_right_about_affine_functions(subject: Subject) -> None:
    """On an affine function a source by gradients is exact, and an estimate points uphill for every row."""
    task, x = _problem()
    true = _true(task)
    if subject.entry.access == "gradients":
        found = _asked(subject, task, x).gradient
        require(
            torch.allclose(found, true.to(found.dtype), rtol=1e-4, atol=1e-6),
            f"its gradient of an affine function is off by up to {float((found - true).abs().max()):.3g}",
            "Differentiate the loss by the image, summed over rows, not averaged.",
        )
        return
    source = subject.build()
    mean = torch.stack([_asked(subject, task, x, source).gradient.double() for _ in range(_AVERAGED)]).mean(0)
    cosine = nn.functional.cosine_similarity(mean.flatten(1), true.double().flatten(1))
    require(
        bool((cosine > 0.3).all()),
        f"the mean of {_AVERAGED} estimates of an affine function's gradient has a cosine of "
        f"{float(cosine.min()):.2f} "
        "with the gradient",
        "Give it more samples (options=), or look at the sign and at which rows the values belong to.",
    )
    measured = (mean * true.double()).flatten(1).sum(1) / true.double().square().flatten(1).sum(1)
    require(
        bool((measured > 0.1).all()) and bool((measured < 10).all()),
        f"along the true gradient its estimate is {float(measured.min()):.2g} to "
        f"{float(measured.max()):.2g} times it",
        "Divide differences by the length of the step on both sides, 2h.",
    )


def gives_every_row_its_own(subject: Subject) -> None:
    """The gradient of a row does not depend on the other rows, nor on how often others draw."""
    task, x = _problem()
    whole = _asked(subject, task, x).gradient
    rows = torch.tensor([4, 1])
    fresh, _ = _problem()
    part = _asked(subject, fresh.select(rows), x[rows]).gradient
    require(
        torch.allclose(part, whole[rows], rtol=1e-4, atol=1e-5),
        "two of the six rows alone get another gradient than among the six",
        "Draw from task.random, and average over nothing but the probes of the row itself.",
    )


def leaves_the_model_and_the_world_alone(subject: Subject) -> None:
    """It changes neither the model nor the point, and draws from the task's streams alone."""
    linear, images, labels = linear_problem(n=6, shape=(2, 3, 4))
    model = Defended(nn.Identity(), linear).eval().requires_grad_(False)
    task = task_of(model, images, labels)
    world, kept = World.of(model), images.clone()
    _asked(subject, task, images)
    changed = world.changed()
    world.restore()
    require(
        not changed,
        f"it changed {', '.join(changed)}",
        "Draw from task.random alone, and ask the model through task.target alone.",
    )
    require(torch.equal(images, kept), "it writes into the images it is given", "Work on a copy of x.")


def survives_a_gradient_of_zero(subject: Subject) -> None:
    """Where no gradient comes through it is zero, not NaN."""
    task, x = _problem(ZeroBackward())
    slope = _asked(subject, task, x)
    require(
        bool(torch.isfinite(slope.gradient).all()),
        "behind a front end without a gradient it gives NaN or infinity",
        "Divide a gradient by its norm only where that is not zero.",
    )


def takes_gradients_only_if_it_says_so(subject: Subject) -> None:
    """A source by scores takes no gradient of the model."""
    if subject.entry.access != "scores":
        return
    linear, images, labels = linear_problem(n=6, shape=(2, 3, 4))

    class NoGradient(nn.Module):
        """A linear model through which no gradient flows."""

        def __init__(self) -> None:
            super().__init__()
            self.inner: Linear = linear

        def forward(self, images: Tensor) -> Tensor:
            with torch.no_grad():
                logits: Tensor = self.inner(images)
            return logits

    seen = _asked(subject, task_of(NoGradient().eval(), images, labels), images).gradient
    with_gradient = _asked(subject, task_of(linear, images, labels), images).gradient
    require(
        torch.equal(seen, with_gradient),
        "it declares access = 'scores' and gives something else when the model has no gradient",
        "Estimate from logits alone, or declare access = 'gradients'.",
    )


CHECKS = (
    tells_gradient_loss_and_logits,
    is_right_about_affine_functions,
    gives_every_row_its_own,
    leaves_the_model_and_the_world_alone,
    survives_a_gradient_of_zero,
    takes_gradients_only_if_it_says_so,
)
