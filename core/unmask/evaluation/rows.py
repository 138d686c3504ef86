"""Bookkeeping of rows that may occur more than once in a batch."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["first_of_each", "occurrence"]


def occurrence(rows: Tensor) -> Tensor:
    """How often each entry has occurred before it, int64: ``[3, 5, 3, 3]`` gives ``[0, 0, 1, 2]``."""
    if len(rows) == 0:
        return torch.zeros_like(rows)
    order = torch.argsort(rows, stable=True)
    ordered = rows[order]
    position = torch.arange(len(rows), device=rows.device)
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    first = torch.cummax(torch.where(starts, position, torch.zeros_like(position)), 0).values
    result = torch.empty_like(rows)
    result[order] = position - first
    return result


def first_of_each(rows: Tensor, key: Tensor) -> Tensor:
    """Positions, one for every distinct row, at which `key` is smallest (the earliest among equals)."""
    by_key = torch.argsort(key, stable=True)
    by_row = by_key[torch.argsort(rows[by_key], stable=True)]
    ordered = rows[by_row]
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    return by_row[starts]
