"""A model quantised to a precision that is drawn for every query."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import attrs
import torch
from torch import Tensor, nn

from unmask.errors import UserError
from unmask.models.randomized import RandomizedEnsemble
from unmask_plugins.ensembles.members import checked_members

__all__ = ["quantized", "random_precision"]

_LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


def random_precision(members: Sequence[nn.Module], bits: Sequence[int] = (4, 5, 6, 7, 8)) -> nn.Module:
    """Random precision inference, RPI (Fu et al. 2021, Double-Win Quant).

    Each query is answered at a precision drawn uniformly from `bits`. There are finitely many, so the
    evaluation scores the expectation over them exactly, as for any randomised ensemble.

    Args:
        members: The one model.
        bits: Precisions of weights and activations, each from 2 to 16.

    Returns:
        A randomised ensemble of one quantised copy for each precision.

    Raises:
        UserError: Not one member, one without convolutions and linear layers, or another number of bits.
    """
    (model,) = checked_members(members, exactly=1, meaning=": the model whose precision is drawn")
    if not bits or any(not 2 <= b <= 16 for b in bits) or len(set(bits)) < len(bits):
        raise UserError(f"{list(bits)} must be different numbers from 2 to 16.", where="bits")
    if not any(isinstance(layer, _LAYERS) for layer in model.modules()):
        raise UserError("the model has no convolution or linear layer to quantise.", where="members")
    return RandomizedEnsemble([quantized(model, b) for b in bits])


def quantized(model: nn.Module, bits: int) -> nn.Module:
    """A copy whose convolutions and linear layers compute with `bits` bits.

    Weights are rounded to a symmetric grid over each layer's range, inputs to a grid over each sample's own
    range. The backward pass takes rounding for the identity, as in training for quantisation.
    """
    found = copy.deepcopy(model)
    for layer in found.modules():
        if isinstance(layer, _LAYERS):
            with torch.no_grad():
                step = layer.weight.abs().max() / (2 ** (bits - 1) - 1)
                if step > 0:
                    layer.weight.copy_((layer.weight / step).round() * step)
            layer.register_forward_pre_hook(_Rounded(bits))
    found.__dict__["quantized_bits"] = bits  # so that hashes tell the copies apart, whatever their weights
    return found


@attrs.frozen
class _Rounded:
    """Rounds what a layer is given, sample by sample."""

    bits: int

    def __call__(self, layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        x: Tensor = inputs[0]
        flat = x.detach().flatten(1)
        shape = (-1,) + (1,) * (x.ndim - 1)
        low = flat.amin(1).reshape(shape)
        step = (flat.amax(1).reshape(shape) - low) / (2**self.bits - 1)
        safe = torch.where(step > 0, step, 1.0)
        rounded = ((x.detach() - low) / safe).round() * step + low
        return (x + (rounded - x.detach()), *inputs[1:])
