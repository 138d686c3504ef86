"""What an attack climbs, by name."""

from __future__ import annotations

from typing import Literal

from unmask.evaluation.task import Loss
from unmask_kernels.losses import cross_entropy, dlr, margin

__all__ = ["LossName", "loss_named"]

LossName = Literal["ce", "margin", "dlr"]

_LOSSES: dict[str, Loss] = {"ce": cross_entropy, "margin": margin, "dlr": dlr}


def loss_named(name: LossName) -> Loss:
    """``ce``: cross-entropy; ``margin``: largest other logit less the label's; ``dlr``: Croce & Hein."""
    return _LOSSES[name]
