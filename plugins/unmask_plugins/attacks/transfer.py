"""Transfer: examples made on one model, shown to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import torch
from torch import Tensor

from unmask.components import ConfiguredAttack, as_configured
from unmask.evaluation.loop import run_attack
from unmask.evaluation.task import Task
from unmask.models.reference import ModelReference
from unmask_kernels.losses import margin

if TYPE_CHECKING:
    from unmask.evaluation.random import SampleRandom
    from unmask.evaluation.target import Target
    from unmask.evaluation.threat import Ball

__all__ = ["Transfer"]


def _pgd() -> ConfiguredAttack:
    return as_configured("pgd")


@attrs.frozen
class Transfer:
    """Attack a source model and show what was found to the target (Papernot et al. 2016).

    The attack on the source runs to its end, beyond the first success there; the final example of every
    restart is shown to the target, which is charged one forward for each.

    Attributes:
        source: The model attacked: the name of a model of the run, or a module.
        attack: The attack on the source; PGD unless given.
    """

    source: ModelReference
    attack: ConfiguredAttack = attrs.field(factory=_pgd)

    def __attrs_post_init__(self) -> None:
        if self.attack.entry.search != "within":
            raise ValueError(
                f"attack must search within a ball, and '{self.attack.use}' seeks the nearest example"
            )

    def __call__(
        self, target: Target, images: Tensor, labels: Tensor, budget: Ball, random: SampleRandom
    ) -> Tensor:
        """The example of every sample at which the target's margin is smallest."""
        task = Task(target.other(self.source), images, labels, budget, random)
        best, best_loss = images, torch.full((len(images),), -torch.inf).to(images)
        for found in run_attack(self.attack.attack, task):
            with torch.no_grad():
                loss = margin(target(found), labels)
            better = loss > best_loss
            best = torch.where(better[:, None, None, None], found, best)
            best_loss = torch.where(better, loss, best_loss)
        return best
