"""How much a run will ask of its models, by counting, before anything is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from unmask.components import ConfiguredAttack

__all__ = ["operations", "passes"]

UNKNOWN_PASSES = 100
"""Passes of an attack that does not say how many it makes."""


def passes(configured: ConfiguredAttack) -> int:
    """Passes through the model that an attack may spend on one sample, roughly and at most."""
    attack: Any = configured.attack
    steps = getattr(attack, "queries", None) or getattr(attack, "steps", None)
    found = UNKNOWN_PASSES
    if isinstance(steps, int):
        runs = 1
        for name in ("restarts", "targets", "eot"):
            value = getattr(attack, name, 1)
            runs *= max(value, 1) if isinstance(value, int) else 1
        found = steps * runs
    return found if configured.max_queries is None else min(found, configured.max_queries)


def operations(module: nn.Module, images: Tensor) -> float:
    """Floating-point operations of the convolutions and linear layers in one forward pass, per image.

    The images are [sample, channel, height, width]; some models do not take a single one. Layers of other
    kinds count for nothing: they are cheap, and this is asked to tell large work from small.
    """
    total = 0

    def count(layer: nn.Module, given: Any, answer: Tensor) -> None:
        nonlocal total
        weight: Tensor = layer.weight  # type: ignore[assignment]
        total += 2 * answer.numel() * (weight.numel() // len(weight))

    layers = [m for m in module.modules() if isinstance(m, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    try:
        with torch.no_grad():
            module(images.clone())
    finally:
        for hook in hooks:
            hook.remove()
    return total / len(images)
