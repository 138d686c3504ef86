"""Noise before every convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import torch
from torch import nn

from unmask.errors import UserError
from unmask_plugins.ensembles.members import SelfEnsemble, copy_of_only_member

__all__ = ["NoiseLayers"]


class NoiseLayers(SelfEnsemble):
    """Random self-ensemble, RSE (Liu, Cheng, Zhang and Hsieh 2018).

    Gaussian noise is added to what every convolution of a copy of the model is given; the probabilities of
    several draws are averaged. The paper trains its networks under the same noise; a model that was not
    loses accuracy.

    Args:
        members: The one model.
        first: Standard deviation before the first convolution; the paper's initial noise.
        inner: Standard deviation before the others.
        draws: Answers whose probabilities are averaged; 10 in the paper.

    Raises:
        UserError: Not one member, one without convolutions, or a number out of its range.
    """

    def __init__(
        self, members: Sequence[nn.Module], first: float = 0.2, inner: float = 0.1, draws: int = 1
    ) -> None:
        for name, value in (("first", first), ("inner", inner)):
            if not value >= 0:
                raise UserError(f"{value} must not be negative.", where=name)
        model = copy_of_only_member(members)
        layers = [layer for layer in model.modules() if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d)]
        if not layers:
            raise UserError("the model has no convolution to put noise before.", where="members")
        for i, layer in enumerate(layers):
            layer.register_forward_pre_hook(_Noise(inner if i else first))
        super().__init__(model, draws)
        self.first, self.inner = first, inner


@attrs.frozen
class _Noise:
    """Adds noise to what a layer is given."""

    deviation: float

    def __call__(self, layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (inputs[0] + self.deviation * torch.randn_like(inputs[0]), *inputs[1:])
