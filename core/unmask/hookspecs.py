"""The hooks a plugin may implement. Each takes no arguments and returns an iterable of entries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unmask.entries import (
    AttackEntry,
    DataEntry,
    EnsembleEntry,
    FrontEndEntry,
    GradientEntry,
    MetricEntry,
    ModelEntry,
    RecipeEntry,
)
from unmask.markers import hookspec

# pluggy collects what every plugin returns; the bodies of specifications are never run.
# mypy: disable-error-code="empty-body"


@hookspec
def unmask_models() -> Iterable[ModelEntry]:
    """Classifiers."""


@hookspec
def unmask_front_ends() -> Iterable[FrontEndEntry]:
    """What stands before a classifier: denoisers, quantisers, random transformations."""


@hookspec
def unmask_ensembles() -> Iterable[EnsembleEntry]:
    """Models made of models."""


@hookspec
def unmask_attacks() -> Iterable[AttackEntry]:
    """Searches for adversarial examples."""


@hookspec
def unmask_metrics() -> Iterable[MetricEntry]:
    """Measurements beyond the core ones."""


@hookspec
def unmask_gradients() -> Iterable[GradientEntry]:
    """Where a search gets its direction from."""


@hookspec
def unmask_data() -> Iterable[DataEntry]:
    """Data sets."""


@hookspec
def unmask_recipes() -> Iterable[RecipeEntry]:
    """Training recipes."""


@hookspec(firstresult=True)
def unmask_kernels() -> Any:
    """The tensor kernels the framework computes with: an object that satisfies `unmask.kernels.Kernels`."""
