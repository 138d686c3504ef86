"""A model is a guest: after an evaluation it is bit for bit what it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from unmask.models.foreign_random import RandomState

__all__ = ["guests"]


@contextmanager
def guests(models: Iterable[nn.Module]) -> Iterator[None]:
    """Evaluate inside; parameters need no gradient there, and everything is put back afterwards.

    Restored: parameters, buffers, `requires_grad`, `training` flags, `.grad`, the global random states of
    torch, NumPy and Python, and the generators that the models hold.
    """
    root = nn.ModuleList(models)
    tensors = [*root.parameters(), *root.buffers()]
    originals = [t.detach().clone() for t in tensors]
    wanted_gradient = [(p, p.requires_grad) for p in root.parameters()]
    gradients = [(p, p.grad) for p in root.parameters()]
    flags = [(m, m.training) for m in root.modules() if m is not root]
    state = RandomState.capture(root)
    try:
        for parameter, _ in wanted_gradient:
            parameter.requires_grad_(False)
        yield
    finally:
        with torch.no_grad():
            for tensor, original in zip(tensors, originals, strict=True):
                # NaN buffers compare unequal to themselves and are simply written back.
                if not torch.equal(tensor, original):
                    tensor.copy_(original)
        for parameter, wanted in wanted_gradient:
            parameter.requires_grad_(wanted)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for module, training in flags:
            module.training = training
        state.restore()
