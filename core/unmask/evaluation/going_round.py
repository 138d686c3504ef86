"""Models inside which some parts are behind front ends: BPDA goes round each of them."""

from __future__ import annotations

import copy
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from unmask.evaluation.backward import Replace, StraightThrough
from unmask.models.defended import Defended

__all__ = ["going_round", "has_front_end"]

_MADE: WeakKeyDictionary[nn.Module, dict[str, nn.Module]] = WeakKeyDictionary()


def has_front_end(module: nn.Module) -> bool:
    """Whether it is, or holds, a classifier behind a front end."""
    return any(isinstance(part, Defended) for part in module.modules())


def going_round(module: nn.Module, at: str) -> nn.Module:
    """The same model, parameters shared, whose backward pass goes round every front end in it.

    An ensemble that averages its members is differentiated at the logits its members really give, and each
    member through its backbone alone.

    Args:
        module: Holds one `Defended` or more, as an ensemble of such does.
        at: ``input`` or ``front-end``, as for `Target.bypass`.
    """
    made = _MADE.setdefault(module, {})
    if at not in made:
        made[at] = _rebuilt(module, at, {})
    return made[at]


def _rebuilt(module: nn.Module, at: str, done: dict[int, nn.Module]) -> nn.Module:
    if id(module) in done:
        return done[id(module)]
    if isinstance(module, Defended):
        result: nn.Module = _GoneRound(module, at)
    elif has_front_end(module):
        # A copy of the containers alone: what they hold is the model's own.
        result = copy.copy(module)
        children = {
            name: None if child is None else _rebuilt(child, at, done)
            for name, child in module._modules.items()
        }
        result.__dict__["_modules"] = children
    else:
        result = module
    done[id(module)] = result
    return result


class _GoneRound(nn.Module):
    """A defended classifier with the value of the whole and the gradient of what is behind the front end."""

    def __init__(self, defended: Defended, at: str) -> None:
        super().__init__()
        self.defended, self.at = defended, at
        inner: nn.Module = defended
        while isinstance(inner, Defended):
            inner = inner.backbone
        self.backbone = _rebuilt(inner, at, {})
        self.training = defended.training

    def forward(self, images: Tensor) -> Tensor:
        """Logits [sample, class]."""
        if self.at == "front-end":
            straight: Tensor = StraightThrough(self.defended)(images)
            return straight
        with torch.no_grad():
            logits = self.defended(images.clone())  # some models work in place
        return Replace.apply(logits, self.backbone(images))  # type: ignore[no-any-return]
