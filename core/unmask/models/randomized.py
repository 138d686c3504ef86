"""An ensemble that answers with one member at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from unmask.errors import MisuseError, UserError

__all__ = ["RandomizedEnsemble"]


class RandomizedEnsemble(nn.Module):
    """One member drawn per sample and call (Boytsov et al. 2025, section 3).

    Called directly it draws from torch's global generator. An evaluation draws the member from each
    sample's own stream and scores the exact expectation over the members.

    Args:
        members: Models with the same classes.
        probabilities: How often each answers; uniform when None.

    Raises:
        UserError: No members, or probabilities that are negative, not one per member or do not sum to one.
        MisuseError: A member is not an `nn.Module`.
    """

    probabilities: Tensor

    def __init__(self, members: Iterable[nn.Module], probabilities: Sequence[float] | None = None) -> None:
        super().__init__()
        members = list(members)
        if not members:
            raise UserError("an ensemble needs at least one member; none was given.", where="members")
        for i, member in enumerate(members):
            if not isinstance(member, nn.Module):
                raise MisuseError(
                    f"must be a torch.nn.Module, not {type(member).__name__}.", where=f"members[{i}]"
                )
        weights = (
            [1.0 / len(members)] * len(members)
            if probabilities is None
            else [float(p) for p in probabilities]
        )
        if len(weights) != len(members):
            raise UserError(
                f"{len(weights)} probabilities for {len(members)} members; give one for each.",
                where="probabilities",
            )
        if any(not math.isfinite(p) or p < 0 for p in weights) or abs(math.fsum(weights) - 1.0) > 1e-6:
            raise UserError(f"{weights} must be non-negative and sum to 1.", where="probabilities")
        self.members = nn.ModuleList(members)
        # A container has no mode of its own: made of members in eval mode, it is in eval mode.
        self.training = self.members.training = any(member.training for member in members)
        self.register_buffer("probabilities", torch.tensor(weights, dtype=torch.float64), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Logits [sample, class], each row from a freshly drawn member."""
        drawn = torch.multinomial(self.probabilities.float(), len(images), replacement=True)
        return self.answer(images, drawn.to(images.device))

    def answer(self, images: Tensor, drawn: Tensor) -> Tensor:
        """Logits where row i is answered by member ``drawn[i]``; every member sees only its own rows."""
        order, parts = [], []
        for k in drawn.unique().tolist():
            rows = (drawn == k).nonzero().squeeze(1)
            order.append(rows)
            parts.append(self.members[k](images[rows]))
        if not parts:
            empty: Tensor = self.members[0](images)
            return empty
        return torch.cat(parts)[torch.cat(order).argsort()]
