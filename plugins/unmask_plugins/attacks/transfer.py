"""Transfer: examples made on other models, shown to this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs
import torch
from torch import Tensor

from unmask.components import ConfiguredAttack, as_configured
from unmask.evaluation.loop import run_attack
from unmask.evaluation.pooled import PooledTarget
from unmask.evaluation.task import Task
from unmask.models.reference import ModelSelection
from unmask_plugins.attacks.losses import loss_named
from unmask_plugins.gradients.expectation import ExpectationOverTransformation

if TYPE_CHECKING:
    from unmask.evaluation.random import SampleRandom
    from unmask.evaluation.target import Target
    from unmask.evaluation.threat import Ball

__all__ = ["Transfer"]


def _pgd() -> ConfiguredAttack:
    return as_configured("pgd")


@attrs.frozen
class Transfer:
    """Attack source models and show what was found to the target (Papernot et al. 2016).

    The attack on the source runs to its end, beyond the first success there; the final example of every
    restart is shown to the target, which is charged one forward for each. Several sources are attacked as one
    ensemble (Liu et al. 2017, "Delving into transferable adversarial examples", section 5).

    Attributes:
        source: The models attacked: the name of a model of the run, a module, a list of these, ``all`` (every
            model of the run, the target among them) or ``leave-one-out`` (all but the target).
        attack: The attack on the source; PGD unless given.
        combine: What of several sources is averaged: their ``logits``, or each one's ``loss``, which the
            attack's gradient then is that of.
    """

    source: ModelSelection
    attack: ConfiguredAttack = attrs.field(factory=_pgd)
    combine: Literal["logits", "loss"] = attrs.field(
        default="logits", validator=attrs.validators.in_(("logits", "loss"))
    )

    def __attrs_post_init__(self) -> None:
        if self.attack.entry.search != "within":
            raise ValueError(
                f"attack must search within a ball, and '{self.attack.use}' seeks the nearest example"
            )
        if self.combine == "loss" and getattr(self.attack.attack, "gradient", None) is None:
            raise ValueError(
                f"combine can be 'loss' for attacks with a gradient, and '{self.attack.use}' has none; "
                "'logits' serves every attack"
            )

    def __call__(
        self, target: Target, images: Tensor, labels: Tensor, budget: Ball, random: SampleRandom
    ) -> Tensor:
        """The example of every sample at which the target's margin is best for the attacker."""
        task = Task(self._source(target), images, labels, budget, random, targets=target.targets)
        best, best_loss = images, torch.full((len(images),), -torch.inf).to(images)
        for found in run_attack(self._attack, task):
            with torch.no_grad():
                loss = loss_named("margin")(target(found), task.goals)
            better = loss > best_loss
            best = torch.where(better[:, None, None, None], found, best)
            best_loss = torch.where(better, loss, best_loss)
        return best

    def _source(self, target: Target) -> Target:
        doors = [target.other(key) for key in self.source.keys(target.name, target.run)]
        return doors[0] if len(doors) == 1 else PooledTarget(doors, apart=self.combine == "loss")

    @property
    def _attack(self) -> Any:
        """The attack, following the mean over the sources where it is their losses that are averaged."""
        attack = self.attack.attack
        if self.combine == "logits":
            return attack
        return attrs.evolve(attack, gradient=ExpectationOverTransformation(attack.gradient, 1))
