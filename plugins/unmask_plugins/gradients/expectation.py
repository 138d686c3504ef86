"""Expectation over transformation: the gradient of a randomised model's mean loss."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import GradientSource, Loss, Slope, Task
from unmask_kernels.expectation import expected_slope
from unmask_plugins.attacks.validation import at_least
from unmask_plugins.gradients.autograd import Autograd

__all__ = ["ExpectationOverTransformation", "mean_slope"]


def mean_slope(slopes: Sequence[tuple[float, Slope]]) -> Slope:
    """Weighted mean of slopes; the weights need not sum to one."""
    if len(slopes) == 1:
        return slopes[0][1]
    weights = torch.tensor([p for p, _ in slopes], dtype=torch.float64)
    gradients, losses, logits = (
        torch.stack([getattr(slope, field) for _, slope in slopes])
        for field in ("gradient", "loss", "logits")
    )
    return Slope(*expected_slope(gradients, losses, logits, weights.to(gradients.device)))


@attrs.frozen
class ExpectationOverTransformation:
    """Mean of another source's gradient over the model's randomness (Athalye et al. 2018, section 3).

    Exact, at one evaluation per distinct member, where the members can be enumerated; otherwise an unbiased
    mean over independent draws. For a deterministic model it is the other source itself. Loss and logits are
    means over the same draws as the gradient.

    Attributes:
        source: The source that is averaged.
        samples: Draws, where the randomness cannot be enumerated.
    """

    source: GradientSource = attrs.field(factory=Autograd)
    samples: int = attrs.field(default=20, validator=at_least(1))

    @property
    def access(self) -> str:
        """What the other source needs."""
        return str(getattr(self.source, "access", "gradients"))

    def __call__(self, task: Task, x: Tensor, loss: Loss) -> Slope:
        """One call of the other source per member, or per draw."""
        members = task.target.members
        if members is not None:
            return mean_slope([(p, self.source(task.through(member), x, loss)) for p, member in members])
        return mean_slope([(1.0, self.source(task, x, loss)) for _ in range(self.samples)])
