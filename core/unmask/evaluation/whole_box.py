"""A search that may go anywhere: no honest classifier withstands it."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import attrs

from unmask.configured import ConfiguredAttack
from unmask.entries import AttackEntry
from unmask.evaluation.task import Task
from unmask.evaluation.threat import Ball

__all__ = ["WholeBox", "whole_box"]


@attrs.frozen
class WholeBox:
    """An iterative attack in a ball so wide that it holds the whole box (Athalye et al. 2018, section 3.1).

    With no bound on the perturbation an attack can show any image at all, so one that follows a useful
    gradient breaks every sample. It counts as a nearest search: what it finds holds at the radii it lies in.

    Attributes:
        attack: The iterative attack.
    """

    attack: ConfiguredAttack

    norms: ClassVar[tuple[str, ...]] = ("linf", "l2", "l1")
    search: ClassVar[str] = "nearest"

    @property
    def steps(self) -> int:
        """Those of the attack."""
        return int(self.attack.attack.steps)

    @property
    def gradient(self) -> Any:
        """The attack's gradient source."""
        return getattr(self.attack.attack, "gradient", None)

    def start(self, task: Task) -> Any:
        """The attack's own start, anywhere in the box."""
        return self.attack.attack.start(_unbounded(task))

    def step(self, task: Task, state: Any) -> Any:
        """The attack's own step."""
        return self.attack.attack.step(_unbounded(task), state)


def _unbounded(task: Task) -> Task:
    low, high = task.ball.bounds
    size = task.x[0].numel() if len(task.x) else 1
    reach = (high - low) * {"linf": 1.0, "l2": math.sqrt(size), "l1": float(size)}[task.ball.norm]
    return attrs.evolve(task, ball=Ball(task.ball.norm, reach, task.ball.bounds, task.ball.kernels))


def whole_box(attack: ConfiguredAttack) -> ConfiguredAttack:
    """The attack without a bound on the perturbation, as a run takes it."""
    entry = AttackEntry(
        name="whole-box",
        summary="An attack without a bound on the perturbation",
        reference="Athalye et al. 2018, section 3.1",
        build=WholeBox,
        norms=WholeBox.norms,
        access=attack.entry.access,
        search="nearest",
    )
    return ConfiguredAttack(
        use="whole-box",
        attack=WholeBox(attack),
        entry=entry,
        provider=f"{WholeBox.__module__}:{WholeBox.__qualname__}",
        options={"attack": attack.table()},
    )
