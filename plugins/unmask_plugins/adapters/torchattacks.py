"""torchattacks' attacks, which are built round a model and called with images and labels."""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor

from unmask_plugins.adapters.door import Problem
from unmask_plugins.adapters.libraries import TORCHATTACKS
from unmask_plugins.adapters.listed.torchattacks import ATTACKS
from unmask_plugins.adapters.offering import Offering

__all__ = ["attacks"]

_NORMS = {"linf": "Linf", "l2": "L2", "l1": "L1"}


def _find(name: str) -> Any:
    import torchattacks

    return getattr(torchattacks, name)


def _call(build: Any, problem: Problem, options: dict[str, Any]) -> Tensor:
    takes = inspect.signature(build).parameters
    settings = {
        "eps": problem.epsilon,
        "max_epsilon": problem.epsilon,
        "norm": _NORMS[problem.norm],
        "n_classes": problem.classes,
        "seed": problem.seed,
        "verbose": False,
    }
    options.update({key: value for key, value in settings.items() if key in takes})
    attack = build(problem.model, **options)
    if problem.targets is not None:
        attack.set_mode_targeted_by_label(quiet=True)
    found: Tensor = attack(problem.images, problem.goals)
    return found


attacks = Offering(
    TORCHATTACKS,
    ATTACKS,
    _find,
    _call,
    hidden=("model", "eps", "max_epsilon", "norm", "n_classes", "seed", "verbose", "eps_for_division"),
)
