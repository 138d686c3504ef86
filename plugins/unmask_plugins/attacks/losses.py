"""What an attack climbs, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from unmask.evaluation.task import Loss
from unmask_kernels.losses import (
    cross_entropy,
    dlr,
    margin,
    targeted_cross_entropy,
    targeted_dlr,
    targeted_margin,
)

__all__ = ["LossName", "loss_named"]

LossName = Literal["ce", "margin", "dlr"]


def _either(
    away: Callable[[Tensor, Tensor], Tensor], towards: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> Loss:
    def climbed(logits: Tensor, goals: Tensor) -> Tensor:
        return away(logits, goals) if goals.ndim == 1 else towards(logits, goals[:, 0], goals[:, 1])

    return climbed


_LOSSES: dict[str, Loss] = {
    "ce": _either(cross_entropy, targeted_cross_entropy),
    "margin": _either(margin, targeted_margin),
    "dlr": _either(dlr, targeted_dlr),
}


def loss_named(name: LossName) -> Loss:
    """``ce``: cross-entropy; ``margin``: largest other logit less the label's; ``dlr``: Croce & Hein.

    All climb away from the label where goals are labels, and towards the target where they are labels and
    targets (`unmask.evaluation.task.Loss`).
    """
    return _LOSSES[name]
