"""One member, drawn at random, answers each query."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from unmask.models.randomized import RandomizedEnsemble

__all__ = ["randomized"]


def randomized(
    members: Sequence[nn.Module], probabilities: Sequence[float] | None = None
) -> RandomizedEnsemble:
    """A randomised ensemble (Boytsov et al. 2025, section 3).

    Args:
        members: Models with the same classes.
        probabilities: How often each member answers; uniform unless given.

    Raises:
        UserError: No members, or probabilities that are no distribution over them.
    """
    return RandomizedEnsemble(members, probabilities)
