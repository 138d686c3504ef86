"""The optimisers a recipe can name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

import attrs
import torch
from torch import nn

from unmask.errors import UserError, suggestion

__all__ = ["OptimiserName", "build_optimiser", "falling_to_zero", "is_optimiser"]

OptimiserName = Literal["adam", "sgd"]


def is_optimiser(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """A validator: one of the names.

    Raises:
        UserError: An unknown name.
    """
    known = get_args(OptimiserName)
    if value not in known:
        raise UserError(f"{value!r} is no optimiser. {suggestion(str(value), known)}", where=attribute.name)


def build_optimiser(
    name: OptimiserName, parameters: Iterable[nn.Parameter], rate: float, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """Adam (Kingma and Ba 2015) with its usual constants, or SGD with Nesterov momentum 0.9."""
    if name == "adam":
        return torch.optim.Adam(parameters, lr=rate, weight_decay=weight_decay)
    return torch.optim.SGD(parameters, lr=rate, momentum=0.9, nesterov=True, weight_decay=weight_decay)


def falling_to_zero(optimiser: torch.optim.Optimizer, updates: int) -> torch.optim.lr_scheduler.LRScheduler:
    """The rate falls linearly from its first value to zero after the last update."""
    return torch.optim.lr_scheduler.LambdaLR(optimiser, lambda done: 1.0 - done / updates)
