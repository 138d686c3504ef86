"""Auto-PGD."""

from __future__ import annotations

import functools

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import GradientSource, Slope, Task
from unmask_plugins.attacks import apgd_l1
from unmask_plugins.attacks.aims import wide
from unmask_plugins.attacks.ball_and_box import project_both
from unmask_plugins.attacks.losses import LossName, loss_named
from unmask_plugins.attacks.targeting import mean_logits, other_classes
from unmask_plugins.attacks.validation import at_least, between
from unmask_plugins.gradients.autograd import Autograd
from unmask_plugins.gradients.expectation import ExpectationOverTransformation

__all__ = ["APGD", "checkpoints"]

_α = 0.75
"""How much of a new step is taken; the rest goes on in the direction of the last one."""


@functools.lru_cache(maxsize=64)
def checkpoints(steps: int) -> tuple[int, ...]:
    """w_0, w_1, ...: the iterations at which step sizes are reconsidered (Croce & Hein 2020, section 3.1).

    w_j = ceil(p_j N) with p_0 = 0, p_1 = 0.22 and p_j+1 = p_j + max(p_j - p_j-1 - 0.03, 0.06).
    """
    hundredths = [0, 22]
    while hundredths[-1] <= 100:
        hundredths.append(hundredths[-1] + max(hundredths[-1] - hundredths[-2] - 3, 6))
    found = (-(-p * steps // 100) for p in hundredths)
    return tuple(dict.fromkeys(w for w in found if w <= steps))


@attrs.frozen
class APGD:
    """Auto-PGD (Croce & Hein 2020, "Reliable evaluation of adversarial robustness ...", algorithm 1).

    PGD with momentum that starts with steps of 2ε and halves a sample's step size, going back to its best
    point, where too few of the last steps climbed. In l1 it is the sparse form of Croce & Hein (2021), "Mind
    the box", algorithm 1. APGD-T is ``loss = "dlr", targets = 9``.

    Attributes:
        steps: N, steps of each run.
        restarts: Runs (for each target), each from a random point.
        loss: What is climbed: ``ce``, ``margin`` or ``dlr``.
        targets: 0: away from the label. n: towards each of the n most likely other classes in turn, by the
            loss's targeted form; all others where there are fewer. Without effect when the run has a target.
        eot: Draws that each gradient and loss is averaged over; members that can be enumerated are, at no
            more than one evaluation each.
        rho: ρ, the share of steps that must climb.
        multi_epsilon: In l1, spend 30 % of the steps in a ball of radius 3ε and 30 % in one of 2ε first
            ("Mind the box", section 3.4). Without effect in the other norms.
        gradient: Where the direction comes from.
    """

    steps: int = attrs.field(default=100, validator=at_least(1))
    restarts: int = attrs.field(default=1, validator=at_least(1))
    loss: LossName = attrs.field(default="ce", validator=attrs.validators.in_(("ce", "margin", "dlr")))
    targets: int = attrs.field(default=0, validator=at_least(0))
    eot: int = attrs.field(default=1, validator=at_least(1))
    rho: float = attrs.field(default=0.75, validator=between(0, 1))
    multi_epsilon: bool = False
    gradient: GradientSource = attrs.field(factory=Autograd)

    @attrs.frozen
    class State:
        """Algorithm 1's variables.

        Attributes:
            x: x_max, the best point of every sample.
            f_max: The loss there.
            g_max: The gradient there.
            point: x(k).
            previous: x(k-1).
            f: The loss at x(k).
            g: The gradient at x(k).
            η: Step size.
            climbed: Steps since the last checkpoint that raised the loss.
            f_check: f_max at the last checkpoint.
            halved: The step size was halved there.
            towards: The classes that this run is directed at; None: away from the label.
            k: Steps made.
        """

        x: Tensor
        f_max: Tensor
        g_max: Tensor
        point: Tensor
        previous: Tensor
        f: Tensor
        g: Tensor
        η: Tensor
        climbed: Tensor
        f_check: Tensor
        halved: Tensor
        towards: Tensor | None
        k: int = 0

    def runs(self, task: Task) -> int:
        """Restarts times targets."""
        chosen = self.targets if task.targets is None else 0
        return self.restarts * max(1, min(chosen, task.target.classes - 1))

    def start(self, task: Task) -> State | apgd_l1.State:
        """A random point of every ball, and the loss and gradient there."""
        towards = self._towards(task)
        if task.ball.norm == "l1":
            return apgd_l1.start(task, towards, self.steps, self.multi_epsilon, self._slope)
        x = task.ball.random_point(task.x, task.random)
        slope = self._slope(task, towards, x)
        return self.State(
            x=x,
            f_max=slope.loss,
            g_max=slope.gradient,
            point=x,
            previous=x,
            f=slope.loss,
            g=slope.gradient,
            η=torch.full_like(slope.loss, 2 * task.ball.ε),
            climbed=torch.zeros_like(task.labels),
            f_check=slope.loss,
            halved=torch.zeros_like(task.labels, dtype=torch.bool),
            towards=towards,
        )

    def step(self, task: Task, state: State | apgd_l1.State) -> State | apgd_l1.State:
        """One step with momentum; at a checkpoint also line 12 to 16 of the algorithm."""
        if isinstance(state, apgd_l1.State):
            return apgd_l1.step(task, state, self._slope)
        ball, s = task.ball, state
        z = project_both(s.point + wide(s.η) * ball.steepest(s.g), ball, around=task.x)
        α = _α if s.k > 0 else 1.0
        mixed = s.point + α * (z - s.point) + (1 - α) * (s.point - s.previous)
        point = project_both(mixed, ball, around=task.x)
        slope = self._slope(task, s.towards, point)
        better = slope.loss > s.f_max
        s = attrs.evolve(
            s,
            x=torch.where(wide(better), point, s.x),
            f_max=torch.where(better, slope.loss, s.f_max),
            g_max=torch.where(wide(better), slope.gradient, s.g_max),
            point=point,
            previous=s.point,
            f=slope.loss,
            g=slope.gradient,
            climbed=s.climbed + (slope.loss > s.f),
            k=s.k + 1,
        )
        return self._reconsidered(s) if s.k in checkpoints(self.steps) else s

    def _reconsidered(self, s: State) -> State:
        """Step sizes at a checkpoint; where they are halved the search goes on from x_max."""
        window = s.k - max(w for w in checkpoints(self.steps) if w < s.k)
        halve = (s.climbed < self.rho * window) | (~s.halved & (s.f_max == s.f_check))
        return attrs.evolve(
            s,
            η=torch.where(halve, s.η / 2, s.η),
            point=torch.where(wide(halve), s.x, s.point),
            f=torch.where(halve, s.f_max, s.f),
            g=torch.where(wide(halve), s.g_max, s.g),
            climbed=torch.zeros_like(s.climbed),
            f_check=s.f_max,
            halved=halve,
        )

    def _towards(self, task: Task) -> Tensor | None:
        if task.targets is not None or not self.targets:
            return task.targets
        others = other_classes(mean_logits(task, task.x, self.eot), task.labels)
        return others[:, task.run // self.restarts]

    def _slope(self, task: Task, towards: Tensor | None, x: Tensor) -> Slope:
        source = self.gradient
        if self.eot > 1:
            source = ExpectationOverTransformation(source, self.eot)
        slope = source(attrs.evolve(task, targets=towards), x, loss_named(self.loss))
        # A loss that is not a number is never the best.
        loss = torch.nan_to_num(slope.loss, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        return attrs.evolve(slope, loss=loss)
