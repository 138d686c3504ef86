"""Batch normalisation folded into the convolution before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

__all__ = ["fold_batch_norm"]

_PAIRS: dict[type[nn.Module], type[nn.Module]] = {nn.Conv1d: nn.BatchNorm1d, nn.Conv2d: nn.BatchNorm2d}


def fold_batch_norm(model: nn.Module, images: Tensor) -> int:
    """Fold every normalisation that is seen to follow a convolution directly; changes the model.

    The pairs are found by watching one forward pass, so it works whatever a `forward` does in between, with
    autograd functions and control flow of its own. A module that is called twice, is registered under two
    names or has hooks is left alone, and so is a convolution whose output is also used elsewhere: folded,
    the model answers differently, and the pair is parted again.

    Args:
        model: In eval mode.
        images: One batch [sample, channel, height, width].

    Returns:
        How many were folded.
    """
    pairs, expected = _pairs(model, images)
    undo = [_fold(*pair) for pair in pairs]
    if not pairs or _same(model, images, expected):
        return len(pairs)
    for parted in reversed(undo):
        parted()
    folded = 0
    for pair in pairs:
        part = _fold(*pair)
        if _same(model, images, expected):
            folded += 1
        else:
            part()
    return folded


def _pairs(model: nn.Module, images: Tensor) -> tuple[list[tuple[Any, Any, nn.Module, str]], Tensor]:
    """Convolution, normalisation, where that stands and under which name; and the model's answer."""
    names = Counter(id(m) for _, m in model.named_modules(remove_duplicate=False))
    watched = [m for m in model.modules() if type(m) in {*_PAIRS, *_PAIRS.values()} and _plain(m)]
    calls: list[tuple[nn.Module, Any, Any]] = []
    hooks = [m.register_forward_hook(lambda m, given, out: calls.append((m, given[0], out))) for m in watched]
    try:
        expected = _answer(model, images)
    finally:
        for hook in hooks:
            hook.remove()
    called = Counter(id(module) for module, _, _ in calls)
    makers = {id(out): module for module, _, out in calls if type(module) in _PAIRS}
    homes = {
        id(child): (parent, name) for parent in model.modules() for name, child in parent.named_children()
    }
    pairs = []
    for norm, given, _ in calls:
        conv = makers.get(id(given))
        if conv is None or type(norm) is not _PAIRS[type(conv)]:
            continue
        if any(called[id(m)] != 1 or names[id(m)] != 1 for m in (conv, norm)):
            continue
        if norm.running_mean is not None and norm.running_var is not None and not norm.training:
            pairs.append((conv, norm, *homes[id(norm)]))
    return pairs, expected


def _answer(model: nn.Module, images: Tensor) -> Tensor:
    with torch.no_grad():
        answer: Tensor = model(images.clone())
    return answer


_ROUNDING = 1e-3
"""By how much of their size folding may change answers: far more than it does, far less than a wrong pair."""


def _same(model: nn.Module, images: Tensor, expected: Tensor) -> bool:
    answer = _answer(model, images)
    return torch.allclose(answer, expected, rtol=0.0, atol=_ROUNDING * (1.0 + float(expected.abs().max())))


def _plain(module: nn.Module) -> bool:
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )
    return not any(hooks)


def _fold(conv: Any, norm: Any, parent: nn.Module, name: str) -> Callable[[], None]:
    """Fold one pair; what undoes it."""
    weight, bias = conv.weight, conv.bias
    folded = fuse_conv_bn_weights(
        weight, bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    )
    conv.weight, conv.bias = (nn.Parameter(part.detach(), requires_grad=False) for part in folded)
    setattr(parent, name, nn.Identity())

    def undo() -> None:
        conv.weight, conv.bias = weight, bias
        setattr(parent, name, norm)

    return undo
