"""Batch normalisation folded into the convolution before it."""

from __future__ import annotations

from collections import Counter
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
    names or has hooks is left alone. Whether a convolution's output is also used elsewhere cannot be seen:
    compare the model with what it was.

    Args:
        model: In eval mode.
        images: One batch [sample, channel, height, width].

    Returns:
        How many were folded.
    """
    names = Counter(id(m) for _, m in model.named_modules(remove_duplicate=False))
    watched = [m for m in model.modules() if type(m) in {*_PAIRS, *_PAIRS.values()} and _plain(m)]
    calls: list[tuple[nn.Module, Any, Any]] = []
    hooks = [m.register_forward_hook(lambda m, given, out: calls.append((m, given[0], out))) for m in watched]
    try:
        with torch.no_grad():
            model(images.clone())
    finally:
        for hook in hooks:
            hook.remove()
    called = Counter(id(module) for module, _, _ in calls)
    makers = {id(out): module for module, _, out in calls if type(module) in _PAIRS}
    homes = {
        id(child): (parent, name) for parent in model.modules() for name, child in parent.named_children()
    }
    folded = 0
    for norm, given, _ in calls:
        conv = makers.get(id(given))
        if conv is None or type(norm) is not _PAIRS[type(conv)]:
            continue
        if any(called[id(m)] != 1 or names[id(m)] != 1 for m in (conv, norm)):
            continue
        if _fold(conv, norm):
            parent, name = homes[id(norm)]
            setattr(parent, name, nn.Identity())
            folded += 1
    return folded


def _plain(module: nn.Module) -> bool:
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )
    return not any(hooks)


def _fold(conv: Any, norm: Any) -> bool:
    if norm.running_mean is None or norm.running_var is None or norm.training:
        return False
    weight, bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    )
    conv.weight = nn.Parameter(weight.detach(), requires_grad=False)
    conv.bias = nn.Parameter(bias.detach(), requires_grad=False)
    return True
