"""All members answer, and their logits or probabilities are averaged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unmask_plugins.ensembles.members import answers_of, checked_members, mean_log_probabilities

__all__ = ["MeanLogits", "MeanProbabilities"]


class _Averaging(nn.Module, ABC):
    """One answer made of those of all members.

    Args:
        members: Models with the same classes.

    Raises:
        UserError: No members.
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(checked_members(members))

    def forward(self, images: Tensor) -> Tensor:
        """Logits [sample, class]."""
        return self._average(answers_of(self.members, images))

    @abstractmethod
    def _average(self, logits: list[Tensor]) -> Tensor:
        """Of the members' logits, each [sample, class]."""


class MeanLogits(_Averaging):
    """The mean of the members' logits."""

    def _average(self, logits: list[Tensor]) -> Tensor:
        return torch.stack(logits).mean(0)


class MeanProbabilities(_Averaging):
    """The mean of the members' softmax probabilities, as its logarithm, so that attacks have logits."""

    def _average(self, logits: list[Tensor]) -> Tensor:
        return mean_log_probabilities(logits)
