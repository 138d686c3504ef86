"""All members vote."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from unmask_plugins.ensembles.members import answers_of, checked_members

__all__ = ["Majority"]


class Majority(nn.Module):
    """Every member votes for its most likely class; the logits are the votes (hard voting).

    Votes have no gradient. Among classes with equally many votes the first one wins.

    Args:
        members: Models with the same classes.

    Raises:
        UserError: No members.
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(checked_members(members))

    def forward(self, images: Tensor) -> Tensor:
        """Votes [sample, class]; not finite where some member's logits are not."""
        votes = []
        for answer in answers_of(self.members, images):
            logits = answer.detach()
            vote = one_hot(logits.argmax(1), logits.shape[1]).to(logits.dtype)
            votes.append(torch.where(logits.isfinite().all(1, keepdim=True), vote, torch.nan))
        return torch.stack(votes).sum(0)
