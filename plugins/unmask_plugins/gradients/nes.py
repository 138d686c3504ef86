"""NES: a gradient from scores along random normal directions."""

from __future__ import annotations

from typing import ClassVar

import attrs
from torch import Tensor

from unmask.evaluation.task import Loss, Slope, Task
from unmask_plugins.attacks.validation import at_least, positive
from unmask_plugins.gradients.antithetic import antithetic_slope

__all__ = ["NES"]


@attrs.frozen
class NES:
    """Natural evolution strategies with antithetic sampling (Wierstra et al. 2014; Ilyas et al. 2018,
    algorithm 1).

    The gradient of the loss smoothed by a normal distribution, of which the estimate is unbiased; on affine
    losses that is the gradient itself.

    Attributes:
        samples: Directions that are averaged, two forwards each, and one at the point.
        h: Standard deviation σ of the smoothing, in units of a pixel value. Probes may leave the box.
    """

    samples: int = attrs.field(default=128, validator=at_least(1))
    h: float = attrs.field(default=0.01, validator=positive)

    access: ClassVar[str] = "scores"

    def __call__(self, task: Task, x: Tensor, loss: Loss) -> Slope:
        """The mean over all directions."""
        return antithetic_slope(
            task, x, loss, lambda random, shape: random.normal(shape), self.samples, self.h
        )
