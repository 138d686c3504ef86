"""The laws for metrics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from unmask.evaluation.evaluate import evaluate
from unmask.models.initialisation import seeded
from unmask.testing.known import linear_problem, small_net
from unmask.testing.laws import require
from unmask.testing.subject import Subject

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["CHECKS"]


class _Noisy(nn.Module):
    """Answers at random."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.inner(images + 0.05 * torch.randn_like(images))
        return logits


def _corner(target: Any, images: Tensor, labels: Tensor, budget: Any, random: Any) -> Tensor:
    """One random corner of the ball."""
    corner: Tensor = budget.project(
        images + budget.epsilon * random.signs(tuple(images.shape[1:])), around=images
    )
    target(corner)
    return corner


def _results(subject: Subject, metrics: list[Any]) -> xr.Dataset:
    linear, images, labels = linear_problem(n=8)
    models = {"linear": linear, "net": small_net(3, 3), "noisy": _Noisy(linear).eval()}
    return evaluate(
        models, images, labels, {"corner": _corner}, [0.0, 0.1], metrics=metrics, draws=8, prepare="eager"
    )


def _measured(subject: Subject) -> tuple[xr.Dataset, xr.Dataset]:
    """The same results without and with the metric."""
    asked = {"use": subject.use, **subject.options}

    def compute() -> tuple[xr.Dataset, xr.Dataset]:
        with seeded(1):
            return _results(subject, []), _results(subject, [asked])

    return subject.once("measured", compute)


def measures_without_failing(subject: Subject) -> None:
    """A metric measures every model, also one that answers at random, and names itself in the result."""
    without, with_it = _measured(subject)
    failed = [
        w for w in json.loads(with_it.attrs.get("warnings", "[]")) if "failed" in w and subject.use in w
    ]
    require(not failed, "; ".join(failed), "Mend what raised; `docs/results.md` says what a result holds.")
    require(
        set(with_it.data_vars) - set(without.data_vars),
        "it added no variable to the result",
        "Return a DataArray, or a Dataset or mapping of several.",
    )


def has_the_dimensions_it_declares(subject: Subject) -> None:
    """`dims` are the dimensions of what it measures, and `unit` says in what."""
    without, with_it = _measured(subject)
    added = {str(name): with_it[name].dims for name in with_it.data_vars if name not in without.data_vars}
    require(
        any(set(dims) == set(subject.entry.dims) for dims in added.values()),
        f"it declares dims {subject.entry.dims} and added {added}",
        "Declare in its MetricEntry the dimensions of what it gives (those of one model and 'model').",
    )
    require(subject.entry.unit.strip(), "its unit is empty", "Declare a unit; '1' for a fraction.")


def leaves_the_results_alone(subject: Subject) -> None:
    """A metric adds to a result and changes nothing that was there."""
    without, with_it = _measured(subject)
    for name in without.data_vars:
        if name == "seconds":
            continue
        a, b = without[name].values, with_it[name].values
        same = np.array_equal(a, b) or np.array_equal(a.astype(float), b.astype(float), equal_nan=True)
        require(same, f"with it '{name}' has other values", "Work on a copy: results.copy(deep=True).")


def measures_the_same_again(subject: Subject) -> None:
    """Measured twice the numbers are the same, whatever the state of the global random generators."""
    _, first = _measured(subject)
    with seeded(2):
        second = _results(subject, [{"use": subject.use, **subject.options}])
    for name in first.data_vars:
        if name == "seconds" or first[name].dtype.kind not in "fiub":
            continue
        a, b = first[name].values.astype(float), second[name].values.astype(float)
        require(
            np.array_equal(a, b, equal_nan=True),
            f"measured again '{name}' has other values",
            "Draw from measured.random(purpose) alone.",
        )


CHECKS = (
    measures_without_failing,
    has_the_dimensions_it_declares,
    leaves_the_results_alone,
    measures_the_same_again,
)
