"""The boundary attack."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from unmask.data import DataReference
from unmask.evaluation.task import Task
from unmask_plugins.attacks.aims import fooled, wide
from unmask_plugins.attacks.labels_only import first_adversarial, to_boundary
from unmask_plugins.attacks.validation import at_least, positive

__all__ = ["Boundary"]

_CHECK = 10
"""Every how many steps the point on the sphere is looked at by itself."""
_TRIED = 10
"""After how many looks the sphere's step is reconsidered; the step inwards after three times as many."""


@attrs.frozen
class Boundary:
    """Boundary attack, l2 (Brendel, Rauber & Bethge 2018, algorithm 1): a walk by predicted classes alone.

    Each proposal is a step along the sphere round the image, then one towards the image; it is taken where it
    is still adversarial. Both step sizes follow how often that is so.

    Attributes:
        steps: Proposals.
        restarts: Runs, each from another first point.
        sphere_step: δ, first length of the step along the sphere, as a share of the distance.
        inward_step: ε, first length of the step towards the image, likewise.
        adaptation: By which factor step sizes change.
        tries: Images tried for a first adversarial point; a sample for which all fail is left alone.
        starts: Where they are from: a data set. Of it a sample draws images of its target, or in an
            untargeted run of any class but its own. None: uniform noise, which is seldom classified as a
            target.
    """

    steps: int = attrs.field(default=5000, validator=at_least(1))
    restarts: int = attrs.field(default=1, validator=at_least(1))
    sphere_step: float = attrs.field(default=0.01, validator=positive)
    inward_step: float = attrs.field(default=0.01, validator=positive)
    adaptation: float = attrs.field(default=1.5, validator=attrs.validators.gt(1))
    tries: int = attrs.field(default=50, validator=at_least(1))
    starts: DataReference | None = None

    @attrs.frozen
    class State:
        """Where the walk is.

        Attributes:
            x: The adversarial point, the image where none was found.
            found: There is one.
            δ: Step along the sphere.
            ε: Step towards the image.
            sphere_hits: Points on the sphere that were adversarial, since δ was last reconsidered.
            sphere_looks: How many were looked at.
            inward_hits: Proposals that were taken, since ε was last reconsidered.
            inward_looks: How many there were.
            k: Steps made.
        """

        x: Tensor
        found: Tensor
        δ: Tensor
        ε: Tensor
        sphere_hits: Tensor
        sphere_looks: Tensor
        inward_hits: Tensor
        inward_looks: Tensor
        k: int = 0

    def start(self, task: Task) -> State:
        """A first adversarial image, brought close to the boundary along a straight line."""
        x, found = first_adversarial(task, self.tries, self.starts)
        rows = found.nonzero().squeeze(1)
        x = x.index_copy(0, rows, to_boundary(task.select(rows), x[rows], 1e-3))
        one = torch.ones(len(x), dtype=torch.float64, device=x.device)
        none = torch.zeros_like(task.labels)
        return self.State(x, found, one * self.sphere_step, one * self.inward_step, none, none, none, none)

    def step(self, task: Task, state: State) -> State:
        """One proposal for every sample that has a point."""
        rows = state.found.nonzero().squeeze(1)
        s, part = _of(state, rows), task.select(rows)
        along, inward = self._proposals(part, s)
        looked = s.k % _CHECK == 0
        if looked:
            s = attrs.evolve(
                s, sphere_hits=s.sphere_hits + fooled(part, along), sphere_looks=s.sphere_looks + 1
            )
        hit = fooled(part, inward)
        s = attrs.evolve(
            s,
            x=torch.where(wide(hit), inward, s.x),
            inward_hits=s.inward_hits + hit,
            inward_looks=s.inward_looks + 1,
        )
        s = self._reconsidered(s)
        changed = {
            field.name: getattr(state, field.name).index_copy(0, rows, getattr(s, field.name))
            for field in attrs.fields(self.State)
            if field.name != "k"
        }
        return self.State(**changed, k=state.k + 1)

    @staticmethod
    def _proposals(task: Task, s: State) -> tuple[Tensor, Tensor]:
        """The point on the sphere, and the one a little inwards from it (section 2.2)."""
        low, high = task.ball.bounds
        clean = task.x.double()
        back = (clean - s.x.double()).flatten(1)
        distance = torch.linalg.vector_norm(back, dim=1, keepdim=True).clamp_min(1e-300)
        η = task.random.normal((back.shape[1],)).double()
        # Across the direction to the image, and as long as δ says.
        η = η - (η * back).sum(1, keepdim=True) / distance.square() * back
        across = torch.linalg.vector_norm(η, dim=1, keepdim=True)
        δ, ε = s.δ[:, None], s.ε[:, None]
        η = η * (δ * distance / across.clamp_min(1e-300))
        outward = (η - back) / (1 + δ.square()).sqrt()
        shape = s.x.shape
        along = (clean + outward.reshape(shape)).clamp(low, high)
        inward = clean + (along - clean) * wide((1 - ε).squeeze(1).clamp_min(0.0))
        return along.to(s.x.dtype), inward.to(s.x.dtype).clamp(low, high)

    def _reconsidered(self, s: State) -> State:
        """Step sizes after enough looks: half of the points on the sphere should be adversarial."""
        due = s.sphere_looks >= _TRIED
        rate = s.sphere_hits / s.sphere_looks.clamp_min(1)
        factor = self._factor(rate, 0.5, 0.2, due)
        none = torch.zeros_like(s.sphere_hits)
        s = attrs.evolve(
            s,
            δ=s.δ * factor,
            ε=s.ε * factor,
            sphere_hits=torch.where(due, none, s.sphere_hits),
            sphere_looks=torch.where(due, none, s.sphere_looks),
        )
        due = s.inward_looks >= 3 * _TRIED
        rate = s.inward_hits / s.inward_looks.clamp_min(1)
        return attrs.evolve(
            s,
            ε=s.ε * self._factor(rate, 0.25, 0.1, due),
            inward_hits=torch.where(due, none, s.inward_hits),
            inward_looks=torch.where(due, none, s.inward_looks),
        )

    def _factor(self, rate: Tensor, many: float, few: float, due: Tensor) -> Tensor:
        factor = torch.ones_like(rate, dtype=torch.float64)
        factor[due & (rate > many)] = self.adaptation
        factor[due & (rate < few)] = 1 / self.adaptation
        return factor


def _of(state: Boundary.State, rows: Tensor) -> Boundary.State:
    """The state of some samples."""
    chosen = {
        field.name: getattr(state, field.name)[rows]
        for field in attrs.fields(Boundary.State)
        if field.name != "k"
    }
    return attrs.evolve(state, **chosen)
