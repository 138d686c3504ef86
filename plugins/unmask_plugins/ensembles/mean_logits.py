"""All members answer, and their logits are averaged."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unmask_plugins.ensembles.members import checked_members

__all__ = ["MeanLogits"]


class MeanLogits(nn.Module):
    """The mean of the members' logits.

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
        return torch.stack([member(images) for member in self.members]).mean(0)
