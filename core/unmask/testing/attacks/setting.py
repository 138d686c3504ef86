"""An attack as it is tested: in one norm, with a small budget, on small models."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unmask.components import attack as configure
from unmask.configured import ConfiguredAttack
from unmask.dimensions import Status
from unmask.errors import UserError
from unmask.evaluation.evaluate import evaluate
from unmask.evaluation.loop import run_attack
from unmask.models.reference import ModelReference, ModelSelection
from unmask.testing.doors import task_of
from unmask.testing.laws import LawBroken, require
from unmask.testing.subject import Subject

if TYPE_CHECKING:
    import xarray as xr

    from unmask.evaluation.task import Task

__all__ = ["AttackSubject", "radius", "sizes", "whole_box"]

SMALL = {"steps": 3, "queries": 8, "restarts": 2, "targets": 12}
"""The contract's options that cost, cut down unless `conformance` is told otherwise.

More targets than most of the models have classes: an attack must not count on so many.
"""

SECONDS = 60.0
"""How long a cell may take, where it should take less than one."""

_RAISES = (
    "Run it alone to see the traceback: list(unmask.run_attack(attack, unmask.testing.task_of(model, images, "
    "labels, norm)))."
)


def radius(norm: str, size: int) -> float:
    """A radius at which attacks have something to do, for images of `size` pixel values."""
    few = float(math.ceil(0.3 * size))
    return {"linf": 0.1, "l2": 0.2 * math.sqrt(size), "l1": 0.15 * size, "l0": few}[norm]


def whole_box(norm: str, size: int) -> float:
    """The radius of a ball round the middle of [0, 1] that holds all of it."""
    return {"linf": 0.5, "l2": 0.5 * math.sqrt(size), "l1": 0.5 * size, "l0": float(size)}[norm]


def sizes(moved: NDArray[np.float64], norm: str) -> NDArray[np.float64]:
    """Size of perturbations in a norm, over the last axis."""
    flat = np.abs(moved)
    found: NDArray[np.float64] = {
        "linf": lambda: flat.max(-1),
        "l2": lambda: np.sqrt((flat**2).sum(-1)),
        "l1": lambda: flat.sum(-1),
        "l0": lambda: (flat > 0).sum(-1).astype(np.float64),
    }[norm]()
    return found


@attrs.define(eq=False)
class AttackSubject(Subject):
    """An attack in one norm.

    Attributes:
        norm: The norm.
    """

    norm: Any = "linf"

    @property
    def shown(self) -> str:
        """What it is called in messages."""
        return f"attack '{self.provided.name}' ({self.norm})"

    @property
    def slug(self) -> str:
        """The name and the norm."""
        return f"{super().slug}_{self.norm}"

    def configured(self, **more: Any) -> ConfiguredAttack:
        """The attack with a small budget; `model` stands for every other model that it must be told.

        Raises:
            LawBroken: It cannot be built.
        """
        options: dict[str, Any] = {}
        for option in self.options_on_offer():
            if option.parameter in SMALL and type(option.default) is int:
                options[option.parameter] = SMALL[option.parameter]
            if option.required and option.annotation in (ModelReference, ModelSelection):
                options[option.parameter] = "model"
        try:
            return configure(self.use, **{**options, **self.options, **more})
        except UserError as error:
            raise LawBroken(
                f"it cannot be built: {error}",
                'Say what it needs: conformance(name, options={"option": value}); or mend its builder.',
            ) from error

    def evaluated(
        self,
        model: nn.Module,
        images: Tensor,
        labels: Any,
        epsilons: list[float],
        *,
        attack: ConfiguredAttack | None = None,
        **settings: Any,
    ) -> xr.Dataset:
        """A result over (model, attack, epsilon, sample); of a suite also its stages.

        Raises:
            LawBroken: The attack failed.
        """
        if self.norm == "l0":
            # There a radius is a number of pixel values.
            epsilons = sorted({float(math.ceil(epsilon)) for epsilon in epsilons})
        results = evaluate(
            {"model": model},
            images,
            labels,
            {"attack": attack or self.configured()},
            epsilons,
            self.norm,
            keep_examples=True,
            timeout=SECONDS,
            prepare="eager",
            **settings,
        )
        failed = results["status"] == Status.FAILED
        messages = sorted({text for text in results["message"].values.ravel().tolist() if text})
        require(
            not bool(failed.any()) and not messages,
            f"it failed on {len(images)} images of shape {tuple(images.shape[1:])}: {'; '.join(messages)}",
            _RAISES,
        )
        return results

    def task(self, model: nn.Module, images: Tensor, labels: Tensor, epsilon: float, **more: Any) -> Task:
        """What the attack would be given in an evaluation."""
        return task_of(
            model, images, labels, self.norm, epsilon,
            nearest=self.entry.search == "nearest", early_exit=True, **more,
        )  # fmt: skip

    def returned(self, task: Task, attack: ConfiguredAttack | None = None) -> list[Tensor]:
        """What the attack itself gives back, before anybody judges it; after every run or stage.

        Raises:
            LawBroken: It raises.
        """
        configured = attack or self.configured()
        try:
            with torch.enable_grad():
                return [found.detach().clone() for found in run_attack(configured.attack, task)]
        except Exception as error:
            raise LawBroken(
                f"it raised {type(error).__name__} on {len(task)} images of shape {tuple(task.x.shape[1:])}: "
                f"{error}",
                "The exception above, from which this one was raised, shows where.",
            ) from error
