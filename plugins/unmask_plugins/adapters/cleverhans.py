"""CleverHans' attacks on torch models, each a function in a module of its own name."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
from torch import Tensor

from unmask_plugins.adapters.door import Problem
from unmask_plugins.adapters.libraries import CLEVERHANS
from unmask_plugins.adapters.listed.cleverhans import ATTACKS
from unmask_plugins.adapters.offering import Offering

__all__ = ["attacks"]


def _find(name: str) -> Any:
    return getattr(importlib.import_module(f"cleverhans.torch.attacks.{name}"), name)


def _call(function: Any, problem: Problem, options: dict[str, Any]) -> Tensor:
    takes = inspect.signature(function).parameters
    p = np.inf if problem.norm == "linf" else int(problem.p)
    settings = {
        "eps": problem.epsilon,
        "norm": p,
        "constraint": p,
        "n_classes": problem.classes,
        "clip_min": 0.0,
        "clip_max": 1.0,
        "y": problem.goals,
        "targeted": problem.targets is not None,
        "sanity_checks": False,  # the door checks, and tells instead of ending
        "verbose": False,
    }
    options.update({key: value for key, value in settings.items() if key in takes})
    try:
        found: Tensor = function(problem.model, problem.images, **options)
    except AssertionError as error:
        if "Initialization failed" not in str(error):
            raise
        return problem.images  # it found no point to start from
    return found


attacks = Offering(
    CLEVERHANS,
    ATTACKS,
    _find,
    _call,
    hidden=(
        "model_fn",
        "x",
        "eps",
        "norm",
        "constraint",
        "n_classes",
        "clip_min",
        "clip_max",
        "y",
        "y_target",
        "image_target",
        "targeted",
        "sanity_checks",
        "is_debug",
        "verbose",
        "batch_size",
        "rand_minmax",
    ),
)
