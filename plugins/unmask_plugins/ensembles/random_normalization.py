"""Normalisation layers whose kind is drawn at every call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import torch
from torch import Tensor, nn
from torch.nn.functional import group_norm

from unmask.errors import UserError
from unmask_plugins.ensembles.members import SelfEnsemble, copy_of_only_member

__all__ = ["RandomNormalization"]


class RandomNormalization(SelfEnsemble):
    """Random normalisation aggregation, RNA (Dong, Chen, Wang and Xu 2022).

    Every BatchNorm of a copy of the model is, for each image and call, one of several: itself with its
    running statistics, or a group normalisation with its scale and shift. One group is layer normalisation,
    a group for each channel instance normalisation. The paper trains its networks under the same draws; a
    model that was not loses accuracy, the more the larger `share` is.

    Args:
        members: The one model.
        groups: Numbers of groups to draw from; for each layer those that divide its channels.
        share: How often a layer draws at all, instead of being itself. Drawing may also give itself.
        draws: Answers whose probabilities are averaged.

    Raises:
        UserError: Not one member, one whose layers have nothing to draw from, or a number out of its range.
    """

    def __init__(
        self,
        members: Sequence[nn.Module],
        groups: Sequence[int] = (1, 2, 4, 8, 16, 32),
        share: float = 1.0,
        draws: int = 1,
    ) -> None:
        if not groups or any(number < 1 for number in groups):
            raise UserError(f"{list(groups)} must be numbers of groups, each at least 1.", where="groups")
        if not 0 < share <= 1:
            raise UserError(f"{share} must lie above 0 and at most at 1.", where="share")
        model = copy_of_only_member(members)
        layers = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
        drawing = 0
        for layer in layers:
            fitting = tuple(number for number in sorted(set(groups)) if layer.num_features % number == 0)
            if fitting:
                layer.register_forward_hook(_DrawnKind(fitting, share))
                drawing += 1
        if not drawing:
            raise UserError(
                "the model has no BatchNorm2d layer."
                if not layers
                else f"no BatchNorm2d layer has a number of channels that one of {list(groups)} divides.",
                where="members" if not layers else "groups",
            )
        super().__init__(model, draws)
        self.groups, self.share = tuple(groups), share


@attrs.frozen
class _DrawnKind:
    """Replaces some rows of a BatchNorm's output by those of a group normalisation of its input."""

    groups: tuple[int, ...]
    share: float

    def __call__(self, layer: nn.BatchNorm2d, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        features = inputs[0]
        kinds = torch.randint(len(self.groups) + 1, (len(features),))  # 0: the BatchNorm itself
        kinds = torch.where(torch.rand(len(features)) < self.share, kinds, 0).to(features.device)
        for kind in kinds.unique().tolist():
            if kind:
                other = group_norm(features, self.groups[kind - 1], layer.weight, layer.bias, layer.eps)
                output = torch.where((kinds == kind)[:, None, None, None], other, output)
        return output
