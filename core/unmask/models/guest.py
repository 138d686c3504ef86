"""A model is a guest: after an evaluation it is bit for bit what it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from unmask.models.foreign_random import RandomState

__all__ = ["Visit", "guests"]


class Visit:
    """What models were when they came: parameters, buffers and training flags.

    Args:
        models: The models; each is remembered once.
    """

    def __init__(self, models: Iterable[nn.Module]) -> None:
        root = nn.ModuleList(models)
        self._parameters = [(n.partition(".")[2], p, p.detach().clone()) for n, p in root.named_parameters()]
        self._buffers = [(b, b.detach().clone()) for b in root.buffers()]
        self._flags = [(m, m.training) for m in root.modules() if m is not root]

    def put_back(self) -> str | None:
        """Undo what an attack did to the parameters and the flags; a sentence about it, if it did anything.

        Buffers are left alone: a model may keep books of its own in them.
        """
        changed = None
        for name, parameter, original in self._parameters:
            # NaN compares unequal to itself and is simply written again; that alone is no change.
            if not torch.equal(parameter, original):
                if not torch.equal(parameter.nan_to_num(), original.nan_to_num()):
                    changed = changed or f"parameter {name}"
                with torch.no_grad():
                    parameter.copy_(original)
        for module, training in self._flags:
            if module.training != training:
                changed = changed or f"training flag of {type(module).__name__}"
                module.training = training
        return None if changed is None else f"the attack changed the model ({changed}), which was put back"

    def end(self) -> None:
        """Put everything back, buffers too."""
        self.put_back()
        with torch.no_grad():
            for buffer, original in self._buffers:
                if not torch.equal(buffer, original):
                    buffer.copy_(original)


@contextmanager
def guests(models: Iterable[nn.Module]) -> Iterator[Visit]:
    """Evaluate inside; parameters need no gradient there, and everything is put back afterwards.

    Restored: parameters, buffers, `requires_grad`, `training` flags, `.grad`, the global random states of
    torch, NumPy and Python, and the generators that the models hold.
    """
    root = nn.ModuleList(models)
    visit = Visit(root)
    wanted_gradient = [(p, p.requires_grad) for p in root.parameters()]
    gradients = [(p, p.grad) for p in root.parameters()]
    state = RandomState.capture(root)
    try:
        for parameter, _ in wanted_gradient:
            parameter.requires_grad_(False)
        yield visit
    finally:
        visit.end()
        for parameter, wanted in wanted_gradient:
            parameter.requires_grad_(wanted)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        state.restore()
