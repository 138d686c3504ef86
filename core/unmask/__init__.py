"""Unmask tells whether a classifier's adversarial robustness is real or its gradients are masked.

Names are imported when they are first used, so that ``import unmask`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask import errors, statistics
    from unmask.components import attack, ensemble, front_end, gradient, metric, model, recipe
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
    from unmask.evaluation.evaluate import evaluate
    from unmask.markers import hookimpl
    from unmask.models.defended import Defended
    from unmask.models.randomized import RandomizedEnsemble
    from unmask.results.storage import load

    __version__: str

__all__ = [
    "AttackEntry",
    "DataEntry",
    "Defended",
    "EnsembleEntry",
    "FrontEndEntry",
    "GradientEntry",
    "MetricEntry",
    "ModelEntry",
    "RandomizedEnsemble",
    "RecipeEntry",
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
    "statistics",
]

_HOMES = {
    "unmask.components": ("attack", "ensemble", "front_end", "gradient", "metric", "model", "recipe"),
    "unmask.entries": (
        "AttackEntry",
        "DataEntry",
        "EnsembleEntry",
        "FrontEndEntry",
        "GradientEntry",
        "MetricEntry",
        "ModelEntry",
        "RecipeEntry",
    ),
    "unmask.evaluation.evaluate": ("evaluate",),
    "unmask.markers": ("hookimpl",),
    "unmask.models.defended": ("Defended",),
    "unmask.models.randomized": ("RandomizedEnsemble",),
    "unmask.results.storage": ("load",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_SUBMODULES = ("errors", "statistics")


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
