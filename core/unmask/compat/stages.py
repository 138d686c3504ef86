"""The attacks of AutoAttack's class with the settings that scripts change on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from unmask.components import ConfiguredAttack, attack
from unmask.errors import UserError, suggestion

__all__ = ["APGD", "FAB", "STAGES", "Square", "TargetedAPGD", "stage_attack"]

STAGES: Mapping[str, tuple[str, ...]] = {
    "standard": ("apgd-ce", "apgd-t", "fab-t", "square"),
    "plus": ("apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t"),
    "rand": ("apgd-ce", "apgd-dlr"),
}
"""The attacks of every version, in order."""


def _settled(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> Any:
    """Refuse a setting that no attack could have.

    Raises:
        UserError: It is no number, or not positive; or no switch where one is wanted.
    """
    name = f"{type(instance).__name__}.{attribute.name}"
    if isinstance(attribute.default, bool):
        if not isinstance(value, bool):
            raise UserError(f"must be True or False, not {value!r}.", where=name)
    elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UserError(f"must be a positive number, not {value!r}.", where=name)
    return value


_settings = attrs.define(slots=True, on_setattr=_settled)


@_settings
class APGD:
    """``adversary.apgd``, for ``apgd-ce`` and ``apgd-dlr``.

    Attributes:
        n_iter: Steps of each run.
        n_restarts: Runs, each from a random point.
        eot_iter: Draws that each gradient is averaged over.
        rho: Share of steps that must climb.
        use_largereps: In l1, begin in larger balls.
    """

    n_iter: int = 100
    n_restarts: int = 5
    eot_iter: int = 1
    rho: float = 0.75
    use_largereps: bool = False

    def options(self) -> dict[str, Any]:
        """As the options of ``apgd``."""
        return {
            "steps": self.n_iter,
            "restarts": self.n_restarts,
            "eot": self.eot_iter,
            "rho": self.rho,
            "multi_epsilon": self.use_largereps,
        }


@_settings
class TargetedAPGD(APGD):
    """``adversary.apgd_targeted``, for ``apgd-t``.

    Attributes:
        n_restarts: Runs for each target.
        n_target_classes: How many of the most likely other classes are targets.
    """

    n_restarts: int = 1
    n_target_classes: int = 9


@_settings
class FAB:
    """``adversary.fab``, for ``fab`` and ``fab-t``.

    Attributes:
        n_iter: Steps of each run.
        n_restarts: Runs of ``fab``; ``fab-t`` has one for each target, as in AutoAttack.
        alpha_max: The largest share of the projection of the image itself.
        eta: How far beyond the boundary.
        beta: What remains of the perturbation after a success.
        n_target_classes: How many of the most likely other classes are targets of ``fab-t``.
    """

    n_iter: int = 100
    n_restarts: int = 5
    alpha_max: float = 0.1
    eta: float = 1.05
    beta: float = 0.9
    n_target_classes: int = 9

    def options(self) -> dict[str, Any]:
        """As the options of ``fab``, the restarts apart."""
        return {"steps": self.n_iter, "alpha_max": self.alpha_max, "eta": self.eta, "beta": self.beta}


@_settings
class Square:
    """``adversary.square``.

    Attributes:
        n_queries: Forward passes of each run.
        n_restarts: Runs.
        p_init: Share of the image that the first squares cover.
    """

    n_queries: int = 5000
    n_restarts: int = 1
    p_init: float = 0.8

    def options(self) -> dict[str, Any]:
        """As the options of ``square``."""
        return {"queries": self.n_queries, "restarts": self.n_restarts, "share": self.p_init}


def stage_attack(
    stage: str, apgd: APGD, apgd_targeted: TargetedAPGD, fab: FAB, square: Square
) -> ConfiguredAttack:
    """The framework's attack that stands for a stage.

    Raises:
        UserError: There is no such stage, or it refuses a setting.
    """
    targets = {"targets": apgd_targeted.n_target_classes}
    made: Mapping[str, Callable[[], ConfiguredAttack]] = {
        "apgd-ce": lambda: attack("apgd", loss="ce", **apgd.options()),
        "apgd-dlr": lambda: attack("apgd", loss="dlr", **apgd.options()),
        "apgd-t": lambda: attack("apgd", loss="dlr", **targets, **apgd_targeted.options()),
        "fab": lambda: attack("fab", restarts=fab.n_restarts, **fab.options()),
        "fab-t": lambda: attack("fab-t", restarts=1, targets=fab.n_target_classes, **fab.options()),
        "square": lambda: attack("square", **square.options()),
    }
    if stage not in made:
        raise UserError(f"there is no attack '{stage}'. {suggestion(stage, made)}", where="attacks_to_run")
    configured = made[stage]()
    # As in AutoAttack, FAB searches within the radius and stops at its first success.
    return attrs.evolve(configured, entry=attrs.evolve(configured.entry, search="within"))
