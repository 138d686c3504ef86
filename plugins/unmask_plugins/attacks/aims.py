"""Whether an answer is what the attacker wants."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.evaluation.ledger import mistaken
from unmask.evaluation.task import Task

__all__ = ["fooled", "reached", "wide"]


def reached(logits: Tensor, task: Task) -> Tensor:
    """Where the prediction is not the label, or in a targeted task is the target; bool [sample]."""
    return mistaken(logits, task.labels) if task.targets is None else ~mistaken(logits, task.targets)


def fooled(task: Task, x: Tensor) -> Tensor:
    """Ask the model for its prediction alone: `reached` of one query; bool [sample]."""
    with torch.no_grad():
        return reached(task.target(x), task)


def wide(values: Tensor) -> Tensor:
    """One number a sample, shaped to broadcast over images."""
    return values[:, None, None, None]
