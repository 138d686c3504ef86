"""All members answer, and their probabilities are averaged."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from unmask_plugins.ensembles.members import checked_members, mean_log_probabilities

__all__ = ["MeanProbabilities"]


class MeanProbabilities(nn.Module):
    """The mean of the members' softmax probabilities, as its logarithm, so that attacks have logits.

    Args:
        members: Models with the same classes.

    Raises:
        UserError: No members.
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(checked_members(members))

    def forward(self, images: Tensor) -> Tensor:
        """Logits [sample, class], whose softmax is the mean probability."""
        return mean_log_probabilities([member(images) for member in self.members])
