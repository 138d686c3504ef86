"""Dropout that is not switched off at test time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from torch import Tensor, nn
from torch.nn import functional

from unmask.errors import UserError
from unmask_plugins.ensembles.members import SelfEnsemble, copy_of_only_member

__all__ = ["DropoutAtTest"]

_FUNCTIONS: dict[type[nn.Module], Callable[..., Tensor]] = {
    nn.Dropout: functional.dropout,
    nn.Dropout1d: functional.dropout1d,
    nn.Dropout2d: functional.dropout2d,
    nn.Dropout3d: functional.dropout3d,
    nn.AlphaDropout: functional.alpha_dropout,
    nn.FeatureAlphaDropout: functional.feature_alpha_dropout,
}


class DropoutAtTest(SelfEnsemble):
    """A copy of a model with dropout at test time (Wang et al. 2018, Defensive Dropout).

    The model's own dropout layers drop at every call. A model without any gets dropout before each of its
    linear layers, where the paper puts it. The modules stay in eval mode: BatchNorm is not touched.

    Args:
        members: The one model.
        rate: Share of activations that are dropped; the layers' own unless given. A model without dropout
            layers needs it.
        draws: Answers whose probabilities are averaged.

    Raises:
        UserError: Not one member, a number out of its range, or a model in which nothing would be dropped.
    """

    def __init__(self, members: Sequence[nn.Module], rate: float | None = None, draws: int = 1) -> None:
        if rate is not None and not 0 < rate < 1:
            raise UserError(f"{rate} must lie between 0 and 1.", where="rate")
        model = copy_of_only_member(members)
        dropped = 0
        for layer in model.modules():
            function = _FUNCTIONS.get(type(layer))
            if function is not None:
                share = float(layer.p) if rate is None else rate  # type: ignore[arg-type]
                layer.register_forward_hook(_After(function, share))
                dropped += share > 0
        if not dropped and rate is not None:
            for layer in model.modules():
                if type(layer) is nn.Linear:
                    layer.register_forward_pre_hook(_Before(rate))
                    dropped += 1
        if not dropped:
            raise UserError(
                "the model has no dropout layer that drops anything. Give a `rate`; dropout then stands "
                "before each linear layer."
                if rate is None
                else "the model has neither dropout nor linear layers.",
                where="rate" if rate is None else "members",
            )
        super().__init__(model, draws)
        self.rate = rate


@attrs.frozen
class _After:
    """Drops from what a dropout layer, idle in eval mode, has let pass."""

    function: Callable[..., Tensor]
    rate: float

    def __call__(self, layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        return self.function(output, self.rate, training=True)


@attrs.frozen
class _Before:
    """Drops from what a linear layer is given."""

    rate: float

    def __call__(self, layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (functional.dropout(inputs[0], self.rate, training=True), *inputs[1:])
