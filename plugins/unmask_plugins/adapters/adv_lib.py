"""adv-lib's attacks, which are functions of model, images and labels."""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor

from unmask_plugins.adapters.door import Problem
from unmask_plugins.adapters.libraries import ADV_LIB
from unmask_plugins.adapters.listed.adv_lib import ATTACKS
from unmask_plugins.adapters.offering import Offering
from unmask_plugins.adapters.stand_ins import standing_in

__all__ = ["attacks"]


def _find(name: str) -> Any:
    # visdom, which adv-lib asks for, only draws curves for callbacks.
    with standing_in("visdom"):
        from adv_lib import attacks as theirs

    return getattr(theirs, name)


def _call(function: Any, problem: Problem, options: dict[str, Any]) -> Tensor:
    takes = inspect.signature(function).parameters
    settings = {
        "norm": problem.p,
        "p": problem.p,
        "distance": problem.norm,
        "targeted": problem.targets is not None,
    }
    if "eps" in takes and "norm" in takes:
        settings["eps"] = problem.epsilon
    if function.__name__ == "pgd_linf":
        settings["ε"] = problem.epsilon
    options.update({key: value for key, value in settings.items() if key in takes})
    found: Tensor = function(problem.model, problem.images, problem.goals, **options)
    return found


attacks = Offering(
    ADV_LIB,
    ATTACKS,
    _find,
    _call,
    hidden=(
        "model",
        "inputs",
        "labels",
        "eps",
        "ε",
        "norm",
        "p",
        "distance",
        "targeted",
        "callback",
        "starting_points",
        "penalty",
        "return_unsuccessful",
        "return_targets",
    ),
)
