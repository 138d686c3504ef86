"""SPSA: a gradient from scores along random signs."""

from __future__ import annotations

from typing import ClassVar

import attrs
from torch import Tensor

from unmask.evaluation.task import Loss, Slope, Task
from unmask_plugins.attacks.validation import at_least, positive
from unmask_plugins.gradients.antithetic import antithetic_slope

__all__ = ["SPSA"]


@attrs.frozen
class SPSA:
    """Simultaneous perturbation stochastic approximation (Spall 1992; Uesato et al. 2018, algorithm 1).

    Every direction has independent random signs. Unbiased on affine losses; the variance of each coordinate
    is the sum of the squares of all others' slopes, over the number of samples.

    Attributes:
        samples: Directions that are averaged, two forwards each, and one at the point.
        h: Step to each side, in units of a pixel value. Probes may leave the box by as much.
    """

    samples: int = attrs.field(default=128, validator=at_least(1))
    h: float = attrs.field(default=0.01, validator=positive)

    access: ClassVar[str] = "scores"

    def __call__(self, task: Task, x: Tensor, loss: Loss) -> Slope:
        """The mean over all directions."""
        return antithetic_slope(
            task, x, loss, lambda random, shape: random.signs(shape), self.samples, self.h
        )
