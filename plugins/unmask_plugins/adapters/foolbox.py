"""Foolbox's attacks: minimisations run without a radius, the others with the run's."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from unmask_plugins.adapters.door import Problem
from unmask_plugins.adapters.libraries import FOOLBOX
from unmask_plugins.adapters.listed.foolbox import ATTACKS
from unmask_plugins.adapters.offering import Offering

__all__ = ["attacks"]


def _find(name: str) -> Any:
    import foolbox

    return getattr(foolbox.attacks, name)


def _call(build: Any, problem: Problem, options: dict[str, Any]) -> Tensor:
    """One call of an attack of Foolbox 3, whose models know the box and whose criteria know the goal."""
    import foolbox
    from foolbox.attacks.base import FlexibleDistanceMinimizationAttack, MinimizationAttack

    if issubclass(build, FlexibleDistanceMinimizationAttack):
        options["distance"] = {"linf": foolbox.distances.linf, "l2": foolbox.distances.l2}.get(
            problem.norm, foolbox.distances.l1
        )
    if build is foolbox.attacks.HopSkipJumpAttack:
        options["constraint"] = problem.norm
    model = foolbox.PyTorchModel(problem.model, bounds=(0, 1), device=problem.images.device)
    criterion = (
        foolbox.criteria.Misclassification(problem.labels)
        if problem.targets is None
        else foolbox.criteria.TargetedMisclassification(problem.targets)
    )
    epsilon = None if issubclass(build, MinimizationAttack) else problem.epsilon
    try:
        _, clipped, _ = build(**options)(model, problem.images, criterion, epsilons=epsilon)
    except ValueError as error:
        if "init_attack failed" not in str(error):
            raise
        return problem.images  # it found no point to start from
    found: Tensor = clipped
    return found


attacks = Offering(
    FOOLBOX,
    ATTACKS,
    _find,
    _call,
    hidden=("distance", "constraint", "init_attack", "tensorboard", "update_stats_every_k"),
)
