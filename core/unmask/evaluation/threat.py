"""The threat model of one cell: which images an attacker may show."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, get_args

import attrs
import torch
from torch import Tensor

if TYPE_CHECKING:
    from unmask.evaluation.random import SampleRandom
    from unmask.kernels import Kernels

__all__ = ["NORMS", "Ball", "Norm", "rounding_allowance"]

Norm = Literal["linf", "l2", "l1", "l0"]
NORMS: tuple[str, ...] = get_args(Norm)


def rounding_allowance(bounds: tuple[float, float], norm: str, size: int) -> float:
    """By how much float32 arithmetic may leave the ball without meaning to, in units of the norm.

    Such an example is not refused: it is moved back by that much and judged there. In l0 a pixel value is the
    clean one or it is not.
    """
    ulp = 2.0**-21 * max(abs(bounds[0]), abs(bounds[1]), 1e-30)
    return ulp * {"linf": 1.0, "l2": math.sqrt(size), "l1": float(size), "l0": 0.0}[norm]


@attrs.frozen
class Ball:
    """Images within `epsilon` of the clean one in `norm`, inside the box `bounds`.

    Attributes:
        norm: ``linf``, ``l2``, ``l1`` or ``l0``.
        epsilon: Radius in units of a pixel value, in l0 a number of them; `inf` for a nearest search.
        bounds: Smallest and largest valid pixel value.
    """

    norm: Norm
    epsilon: float
    bounds: tuple[float, float]
    kernels: Kernels = attrs.field(repr=False, eq=False)

    @property
    def ε(self) -> float:
        """The radius, as papers write it."""
        return self.epsilon

    def project(self, images: Tensor, *, around: Tensor) -> Tensor:
        """Images brought into ball and box; what is stored satisfies both exactly, in float64 too."""
        return self.kernels.project(images, around, self.norm, self.epsilon, *self.bounds)

    def steepest(self, gradient: Tensor) -> Tensor:
        """The unit step that climbs fastest: sign (linf), normalised gradient (l2), one value (l1, l0)."""
        return self.kernels.steepest(gradient, self.norm)

    def distance(self, images: Tensor, centres: Tensor) -> Tensor:
        """Size of the perturbations in this norm, float64 [sample]."""
        return self.kernels.norms(images.double() - centres.double(), self.norm)

    def random_point(self, centres: Tensor, random: SampleRandom) -> Tensor:
        """A uniformly drawn point of the ball, cut to the box.

        l2: a normal direction times u**(1/d). l1: signed Dirichlet weights, the last coordinate of d + 1
        left out, which is uniform in the cross-polytope. l0: as many coordinates as are allowed, at random
        values of the box.
        """
        shape = tuple(centres.shape[1:])
        size = centres[0].numel() if len(centres) else 1
        if self.norm == "linf":
            offset = random.uniform(shape, -1.0, 1.0)
        elif self.norm == "l2":
            direction = random.normal(shape)
            length = direction.flatten(1).norm(dim=1).clamp_min(1e-30)
            radius = random.uniform(()) ** (1.0 / size)
            offset = direction * (radius / length).reshape(-1, *[1] * len(shape))
        elif self.norm == "l0":
            rank = random.uniform((size,)).argsort(dim=1, stable=True).argsort(dim=1).reshape(-1, *shape)
            anywhere = random.uniform(shape, *self.bounds).to(centres.dtype)
            return self.project(torch.where(rank + 1 <= self.epsilon, anywhere, centres), around=centres)
        else:
            weights = -torch.log1p(-random.uniform((size + 1,)))
            weights = weights[:, :-1] / weights.sum(1, keepdim=True)
            offset = (weights * random.signs((size,))).reshape(-1, *shape)
        return self.project(centres + self.epsilon * offset.to(centres.dtype), around=centres)
