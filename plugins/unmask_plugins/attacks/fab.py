"""Fast adaptive boundary attack."""

from __future__ import annotations

import math

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import GradientSource, Task
from unmask_plugins.attacks.aims import reached, wide
from unmask_plugins.attacks.hyperplane import shortest_step
from unmask_plugins.attacks.losses import loss_named
from unmask_plugins.attacks.targeting import logit_difference, mean_logits, other_classes
from unmask_plugins.attacks.validation import at_least, between
from unmask_plugins.gradients.autograd import Autograd

__all__ = ["FAB", "TargetedFAB"]

_DUAL = {"linf": 1.0, "l2": 2.0, "l1": math.inf}


@attrs.frozen
class FAB:
    """Fast adaptive boundary attack (Croce & Hein 2020, "Minimally distorted ...", algorithm 1).

    Projects the point, and the image itself, onto the nearest class boundary of the linearised classifier,
    goes a little beyond a mixture of both, and after each success a part of the way back to the image. The
    gradients towards all other classes are asked for in every step.

    Attributes:
        steps: N_iter, iterations of each run.
        restarts: Runs; the first starts at the image, the others half of ε away from it in a random
            direction (half of the distance to the linearised boundary where the search knows no ε).
        alpha_max: α_max, the largest share of the projection of the image itself.
        eta: η, how far beyond the boundary.
        beta: β, what remains of the perturbation after a success.
        gradient: Where the logits' gradients come from.
    """

    steps: int = attrs.field(default=100, validator=at_least(1))
    restarts: int = attrs.field(default=1, validator=at_least(1))
    alpha_max: float = attrs.field(default=0.1, validator=between(0, 1))
    eta: float = attrs.field(default=1.05, validator=between(1, 2))
    beta: float = attrs.field(default=0.9, validator=between(0, 1))
    gradient: GradientSource = attrs.field(factory=Autograd)

    @attrs.frozen
    class State:
        """Algorithm 1's variables.

        Attributes:
            x: The closest adversarial example within ε; the image where there is none.
            size: Its distance; inf where there is none.
            point: x(i).
            classes: The classes whose boundaries are looked at, int64 [sample, class].
        """

        x: Tensor
        size: Tensor
        point: Tensor
        classes: Tensor

    def start(self, task: Task) -> State:
        """The image, or in later runs a random point near it."""
        state = self.State(
            x=task.x,
            size=torch.full((len(task),), torch.inf, dtype=torch.float64, device=task.x.device),
            point=task.x,
            classes=self._classes(task),
        )
        if task.run % self.restarts == 0 or not len(task):
            return state
        radius = torch.full_like(state.size, task.ball.ε)
        if math.isinf(task.ball.ε):
            radius = self._nearest_boundary(task, state)[2]
        offset = _direction(task) * wide(radius / 2)
        return attrs.evolve(state, point=_boxed(task.x + offset, task))

    def step(self, task: Task, state: State) -> State:
        """Lines 4 to 11: linearise, project twice, mix, and step back after a success."""
        ball, x = task.ball, state.point
        w, f, _ = self._nearest_boundary(task, state)
        flat = w.double().flatten(1)
        to_image = ((x.double() - task.x.double()).flatten(1) * flat).sum(1)
        d = shortest_step(x, w, -f, ball.norm, ball.bounds)
        d_image = shortest_step(task.x, w, to_image - f, ball.norm, ball.bounds)
        size, size_image = (ball.kernels.norms(way, ball.norm).clamp_min(1e-8) for way in (d, d_image))
        α = wide((size / (size + size_image)).clamp_max(self.alpha_max))
        mixed = (1 - α) * (x.double() + self.eta * d) + α * (task.x.double() + self.eta * d_image)
        point = _boxed(mixed, task)
        broken = reached(mean_logits(task, point), task)
        distance = ball.distance(point, task.x)
        closer = broken & (distance < state.size) & (distance <= ball.ε)
        back = _boxed(task.x.double() + self.beta * (point.double() - task.x.double()), task)
        return attrs.evolve(
            state,
            x=torch.where(wide(closer), point, state.x),
            size=torch.where(closer, distance, state.size),
            point=torch.where(wide(broken), back, point),
        )

    def _classes(self, task: Task) -> Tensor:
        """All classes but the label, or the target that is given."""
        if task.targets is not None:
            return task.targets[:, None]
        every = torch.arange(task.target.classes, device=task.labels.device).expand(len(task), -1)
        return every[every != task.labels[:, None]].reshape(len(task), -1)

    def _nearest_boundary(self, task: Task, state: State) -> tuple[Tensor, Tensor, Tensor]:
        """Of the linearised boundaries the nearest: its normal, difference of logits and distance."""
        best = None
        # A target that is given must exceed every class, of which the label is only one.
        loss = logit_difference if task.targets is None else loss_named("margin")
        for k in range(state.classes.shape[1]):
            towards = attrs.evolve(task, targets=state.classes[:, k])
            slope = self.gradient(towards, state.point, loss)
            w, f = slope.gradient, torch.nan_to_num(slope.loss.double(), nan=0.0)
            dual = torch.linalg.vector_norm(w.double().flatten(1), ord=_DUAL[task.ball.norm], dim=1)
            distance = f.abs() / dual.clamp_min(1e-12)
            if best is None:
                best = w, f, distance
                continue
            nearer = distance < best[2]
            best = (
                torch.where(wide(nearer), w, best[0]),
                torch.where(nearer, f, best[1]),
                torch.where(nearer, distance, best[2]),
            )
        assert best is not None
        return best


@attrs.frozen
class TargetedFAB(FAB):
    """FAB-T: FAB towards one class at a time (Croce & Hein 2020, "Reliable evaluation ...", section 4).

    Attributes:
        targets: The n most likely other classes, each a run of its own; all others where there are fewer.
            Without effect when the run has a target.
    """

    targets: int = attrs.field(default=9, validator=at_least(1))

    def runs(self, task: Task) -> int:
        """Restarts times targets."""
        chosen = self.targets if task.targets is None else 1
        return self.restarts * min(chosen, task.target.classes - 1)

    def _classes(self, task: Task) -> Tensor:
        """The target of this run."""
        if task.targets is not None:
            return task.targets[:, None]
        target = task.run // self.restarts
        return other_classes(mean_logits(task, task.x), task.labels)[:, target : target + 1]


def _boxed(points: Tensor, task: Task) -> Tensor:
    everywhere = attrs.evolve(task.ball, epsilon=math.inf)
    return everywhere.project(points.to(task.x.dtype), around=task.x)


def _direction(task: Task) -> Tensor:
    """A random perturbation of unit norm, float64."""
    shape, ball = tuple(task.x.shape[1:]), task.ball
    drawn = task.random.uniform(shape, -1.0, 1.0) if ball.norm == "linf" else task.random.normal(shape)
    size = ball.kernels.norms(drawn.double(), ball.norm).clamp_min(1e-30)
    return drawn.double() / wide(size)
