"""Unmask tells whether a classifier's adversarial robustness is real or its gradients are masked.

Names are imported when they are first used, so that ``import unmask`` costs next to nothing. What a plugin
needs is here as well: `docs/plugins.md` says what each name is for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask import errors, statistics, testing
    from unmask.components import attack, ensemble, front_end, gradient, metric, model, recipe
    from unmask.configured import ConfiguredAttack
    from unmask.data import DeferredImages, LabelledImages
    from unmask.entries import (
        AttackEntry,
        DataEntry,
        EnsembleEntry,
        FrontEndEntry,
        GradientEntry,
        Library,
        MetricEntry,
        ModelEntry,
        RecipeEntry,
    )
    from unmask.evaluation.evaluate import evaluate
    from unmask.evaluation.loop import run_attack
    from unmask.evaluation.random import SampleRandom
    from unmask.evaluation.target import Target
    from unmask.evaluation.task import GradientSource, Loss, Slope, Task
    from unmask.evaluation.threat import Ball
    from unmask.markers import hookimpl
    from unmask.measurement import Measured
    from unmask.models.defended import Defended
    from unmask.models.randomized import RandomizedEnsemble
    from unmask.models.reference import ModelReference, ModelSelection
    from unmask.results.storage import load

    __version__: str

__all__ = [
    "AttackEntry",
    "Ball",
    "ConfiguredAttack",
    "DataEntry",
    "Defended",
    "DeferredImages",
    "EnsembleEntry",
    "FrontEndEntry",
    "GradientEntry",
    "GradientSource",
    "LabelledImages",
    "Library",
    "Loss",
    "Measured",
    "MetricEntry",
    "ModelEntry",
    "ModelReference",
    "ModelSelection",
    "RandomizedEnsemble",
    "RecipeEntry",
    "SampleRandom",
    "Slope",
    "Target",
    "Task",
    "__version__",
    "attack",
    "ensemble",
    "errors",
    "evaluate",
    "front_end",
    "gradient",
    "hookimpl",
    "load",
    "metric",
    "model",
    "recipe",
    "run_attack",
    "statistics",
    "testing",
]

_HOMES = {
    "unmask.components": ("attack", "ensemble", "front_end", "gradient", "metric", "model", "recipe"),
    "unmask.entries": (
        "AttackEntry",
        "DataEntry",
        "EnsembleEntry",
        "FrontEndEntry",
        "GradientEntry",
        "Library",
        "MetricEntry",
        "ModelEntry",
        "RecipeEntry",
    ),
    "unmask.configured": ("ConfiguredAttack",),
    "unmask.data": ("DeferredImages", "LabelledImages"),
    "unmask.evaluation.evaluate": ("evaluate",),
    "unmask.evaluation.loop": ("run_attack",),
    "unmask.evaluation.random": ("SampleRandom",),
    "unmask.evaluation.target": ("Target",),
    "unmask.evaluation.task": ("GradientSource", "Loss", "Slope", "Task"),
    "unmask.evaluation.threat": ("Ball",),
    "unmask.markers": ("hookimpl",),
    "unmask.measurement": ("Measured",),
    "unmask.models.defended": ("Defended",),
    "unmask.models.randomized": ("RandomizedEnsemble",),
    "unmask.models.reference": ("ModelReference", "ModelSelection"),
    "unmask.results.storage": ("load",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_SUBMODULES = ("errors", "statistics", "testing")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"unmask.{name}")
    if name == "__version__":
        from importlib.metadata import version

        found: Any = version("unmask")
    elif name in _HOME_OF:
        found = getattr(importlib.import_module(_HOME_OF[name]), name)
    else:
        raise AttributeError(f"module 'unmask' has no attribute '{name}'")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
