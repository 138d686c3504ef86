"""What a component must leave as it is: a model, and the process it runs in."""

from __future__ import annotations

from typing import Any

import attrs
import torch
from torch import Tensor, nn

from unmask.models.foreign_random import RandomState

__all__ = ["World"]


@attrs.define(eq=False)
class World:
    """A model and the process as they were."""

    _model: nn.Module
    _state: dict[str, Tensor]
    _flags: list[tuple[str, bool]]
    _wanted: list[tuple[str, bool]]
    _gradients: dict[str, Tensor | None]
    _random: RandomState
    _process: dict[str, Any]

    @classmethod
    def of(cls, model: nn.Module) -> World:
        """As they are now."""
        return cls(
            model,
            {name: tensor.detach().clone() for name, tensor in model.state_dict().items()},
            _flags(model),
            _wanted(model),
            {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()},
            RandomState.capture(nn.Module()),
            _process(),
        )

    def changed(self) -> list[str]:
        """What is no longer as it was, in words."""
        found = []
        now = self._model.state_dict()
        for name, tensor in self._state.items():
            if name not in now or not _same(now[name], tensor):
                found.append(f"the model's '{name}'")
        found += [f"a new '{name}' of the model" for name in now if name not in self._state]
        if _flags(self._model) != self._flags:
            found.append("training flags of the model")
        if _wanted(self._model) != self._wanted:
            found.append("requires_grad of the model's parameters")
        for name, parameter in self._model.named_parameters():
            before = self._gradients.get(name)
            if (parameter.grad is None) != (before is None) or (
                parameter.grad is not None and before is not None and not _same(parameter.grad, before)
            ):
                found.append(f"the gradient of the model's '{name}'")
        if not self._random.same_as(RandomState.capture(nn.Module())):
            found.append("the state of a global random generator (torch, NumPy or Python)")
        process = _process()
        found += [what for what, value in self._process.items() if process[what] != value]
        return found

    def restore(self) -> None:
        """Put back the random states and what the process computes with."""
        self._random.restore()
        torch.set_default_dtype(self._process["torch's default dtype"])
        torch.set_num_threads(self._process["torch's number of threads"])


def _flags(model: nn.Module) -> list[tuple[str, bool]]:
    return [(name, module.training) for name, module in model.named_modules()]


def _wanted(model: nn.Module) -> list[tuple[str, bool]]:
    return [(name, parameter.requires_grad) for name, parameter in model.named_parameters()]


def _process() -> dict[str, Any]:
    return {
        "torch's default dtype": torch.get_default_dtype(),
        "torch's number of threads": torch.get_num_threads(),
    }


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))
