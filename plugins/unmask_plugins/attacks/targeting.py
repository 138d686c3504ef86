"""Which other class a run is directed at, when the attack chooses it itself."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.evaluation.task import Task

__all__ = ["logit_difference", "mean_logits", "other_classes"]


def logit_difference(logits: Tensor, goals: Tensor) -> Tensor:
    """The target's logit less the label's, [sample]: a loss of tasks with targets; positive beyond their
    boundary.
    """
    values = logits.gather(1, goals)
    return values[:, 1] - values[:, 0]


def mean_logits(task: Task, x: Tensor, draws: int = 1) -> Tensor:
    """Logits at `x` [sample, class]: the mean over members where they can be enumerated, else over draws."""
    with torch.no_grad():
        members = task.target.members
        if members is not None:
            return torch.stack([p * member(x) for p, member in members]).sum(0)
        return torch.stack([task.target(x) for _ in range(draws)]).mean(0)


def other_classes(logits: Tensor, labels: Tensor) -> Tensor:
    """Every sample's classes but its label, the most likely first, int64 [sample, classes - 1]."""
    order = logits.nan_to_num(nan=-torch.inf).argsort(dim=1, descending=True, stable=True)
    return order[order != labels[:, None]].reshape(len(order), logits.shape[1] - 1)
