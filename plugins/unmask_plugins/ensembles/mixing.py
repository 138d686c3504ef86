"""An accurate and a robust classifier, mixed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unmask.errors import UserError
from unmask_plugins.ensembles.members import answers_of, checked_members

__all__ = ["Mixing"]


class Mixing(nn.Module):
    """log((1 - α) softmax(g(x)) + α softmax(h(x))) of an accurate g and a robust h.

    Bai, Anderson and Sojoudi (2024), Mixing Classifiers to Alleviate the Accuracy-Robustness Trade-Off:
    they mix probabilities, because those of a robust model are bounded where the
    logits of the accurate one are not.

    Args:
        members: The accurate model g, then the robust model h.
        alpha: α, the robust model's share; from 1/2 on its certified margins carry over.

    Raises:
        UserError: Not two members, or a share outside [0, 1].
    """

    def __init__(self, members: Sequence[nn.Module], alpha: float = 0.5) -> None:
        super().__init__()
        pair = checked_members(members, exactly=2, meaning=": the accurate model, then the robust one")
        if not 0 <= alpha <= 1:
            raise UserError(f"{alpha} must lie between 0 and 1.", where="alpha")
        self.members = nn.ModuleList(pair)
        self.alpha = alpha

    def forward(self, images: Tensor) -> Tensor:
        """Logits [sample, class], whose softmax is the mixture."""
        accurate, robust = (answer.log_softmax(1) for answer in answers_of(self.members, images))
        if self.alpha in (0, 1):
            chosen: Tensor = robust if self.alpha else accurate
            return chosen
        return torch.logaddexp(math.log1p(-self.alpha) + accurate, math.log(self.alpha) + robust)
