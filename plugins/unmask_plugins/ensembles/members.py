"""The members of an ensemble, checked, and what several of them share."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from unmask.errors import MisuseError, UserError

__all__ = ["SelfEnsemble", "answers_of", "checked_members", "copy_of_only_member", "mean_log_probabilities"]


def checked_members(
    members: Sequence[nn.Module], *, exactly: int | None = None, meaning: str = ""
) -> list[nn.Module]:
    """The members as a list.

    Args:
        members: What was given.
        exactly: How many there must be; None: at least one.
        meaning: What the members are, for the message.

    Raises:
        UserError: Another number of members.
        MisuseError: A member is not an `nn.Module`.
    """
    found = list(members)
    for i, member in enumerate(found):
        if not isinstance(member, nn.Module):
            raise MisuseError(
                f"must be a torch.nn.Module, not {type(member).__name__}.", where=f"members[{i}]"
            )
    if exactly is not None and len(found) != exactly:
        raise UserError(
            f"{len(found)} members were given; it takes exactly {exactly}{meaning}.", where="members"
        )
    if not found:
        raise UserError("an ensemble needs at least one member; none was given.", where="members")
    return found


def copy_of_only_member(members: Sequence[nn.Module]) -> nn.Module:
    """A copy of the one model that a self-ensemble is made of, to be changed without touching the model.

    Raises:
        UserError: None, or more than one.
    """
    (member,) = checked_members(members, exactly=1, meaning=": the model whose own answers it draws")
    return copy.deepcopy(member)


def mean_log_probabilities(logits: Sequence[Tensor]) -> Tensor:
    """Logarithm of the mean of the softmax probabilities, [sample, class]; its softmax is that mean."""
    stacked = torch.stack([part.log_softmax(1) for part in logits])
    return stacked.logsumexp(0) - math.log(len(logits))


def answers_of(members: Iterable[nn.Module], images: Tensor) -> list[Tensor]:
    """Every member's answer; each has a copy of the images, since some models work in place."""
    return [member(images.clone()) for member in members]


class SelfEnsemble(nn.Module):
    """One model that answers at random, asked several times.

    Args:
        model: Draws from torch's global generators at every call.
        draws: Answers whose probabilities are averaged.

    Raises:
        UserError: No draws.
    """

    def __init__(self, model: nn.Module, draws: int) -> None:
        super().__init__()
        if draws < 1:
            raise UserError(f"{draws} must be at least 1.", where="draws")
        self.model, self.draws = model, draws

    def forward(self, images: Tensor) -> Tensor:
        """Logits of one answer, or the logarithm of the mean probability of several, [sample, class]."""
        if self.draws == 1:
            logits: Tensor = self.model(images)
            return logits
        return mean_log_probabilities(answers_of([self.model] * self.draws, images))
