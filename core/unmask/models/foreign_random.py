"""Random numbers that a model draws for itself: finding them, and making them repeatable."""

from __future__ import annotations

import random
from typing import Any

import attrs
import numpy as np
import torch
from torch import nn

__all__ = ["RandomState", "seed_everything"]


def _held_generators(model: nn.Module) -> list[Any]:
    """Generators kept as attributes of the model's modules."""
    kinds = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
    found: dict[int, Any] = {}
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, kinds):
                found[id(value)] = value
    return list(found.values())


def _state_of(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state()
    return generator.getstate()


def _restore(generator: Any, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.setstate(state)


def _seed(generator: Any, seed: int) -> None:
    if isinstance(generator, torch.Generator):
        generator.manual_seed(seed)
    elif isinstance(generator, np.random.Generator):
        fresh = type(generator.bit_generator)(seed)
        generator.bit_generator.state = fresh.state
    elif isinstance(generator, np.random.RandomState):
        generator.seed(seed % 2**32)
    else:
        generator.seed(seed)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b))
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return bool(a == b)


def _plain(state: Any) -> Any:
    """A generator's state with arrays as tables of plain values."""
    if isinstance(state, np.ndarray):
        return {"array": state.tolist(), "dtype": str(state.dtype)}
    if isinstance(state, dict):
        return {key: _plain(part) for key, part in state.items()}
    if isinstance(state, tuple | list):
        return type(state)(_plain(part) for part in state)
    return state.item() if isinstance(state, np.generic) else state


def _from_plain(state: Any) -> Any:
    """The state `_plain` was given."""
    if isinstance(state, dict):
        if set(state) == {"array", "dtype"}:
            return np.array(state["array"], dtype=state["dtype"])
        return {key: _from_plain(part) for key, part in state.items()}
    if isinstance(state, tuple | list):
        return type(state)(_from_plain(part) for part in state)
    return state


def seed_everything(model: nn.Module, seed: int) -> None:
    """Seed the global generators and those the model holds; call inside `guests`, which restores them."""
    # Not torch.manual_seed: before CUDA is up that queues a call, with a stack trace, for every seeding.
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
    for generator in _held_generators(model):
        _seed(generator, seed)


@attrs.frozen(eq=False)
class RandomState:
    """The state of every generator a model may draw from."""

    torch_cpu: torch.Tensor
    torch_cuda: list[torch.Tensor]
    numpy: Any
    python: Any
    held: list[tuple[Any, Any]]

    @classmethod
    def capture(cls, model: nn.Module) -> RandomState:
        """The state now."""
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        return cls(
            torch_cpu=torch.get_rng_state(),
            torch_cuda=cuda,
            numpy=np.random.get_state(),
            python=random.getstate(),
            held=[(generator, _state_of(generator)) for generator in _held_generators(model)],
        )

    def as_plain(self) -> dict[str, Any]:
        """The same as tensors and plain values, which a checkpoint can hold."""
        return {
            "torch_cpu": self.torch_cpu,
            "torch_cuda": self.torch_cuda,
            "numpy": _plain(self.numpy),
            "python": _plain(self.python),
            "held": [_plain(state) for _, state in self.held],
        }

    @classmethod
    def from_plain(cls, model: nn.Module, plain: dict[str, Any]) -> RandomState:
        """What `as_plain` made of the state of a model's generators, for this copy of the model."""
        return cls(
            torch_cpu=plain["torch_cpu"],
            torch_cuda=plain["torch_cuda"],
            numpy=_from_plain(plain["numpy"]),
            python=_from_plain(plain["python"]),
            held=list(zip(_held_generators(model), map(_from_plain, plain["held"]), strict=True)),
        )

    def restore(self) -> None:
        """Put every generator back."""
        torch.set_rng_state(self.torch_cpu)
        if self.torch_cuda:
            torch.cuda.set_rng_state_all(self.torch_cuda)
        np.random.set_state(self.numpy)
        random.setstate(self.python)
        for generator, state in self.held:
            _restore(generator, state)

    def same_as(self, other: RandomState) -> bool:
        """Whether nothing was drawn between the two."""
        return (
            torch.equal(self.torch_cpu, other.torch_cpu)
            and _same(self.torch_cuda, other.torch_cuda)
            and _same(self.numpy, other.numpy)
            and _same(self.python, other.python)
            and _same([s for _, s in self.held], [s for _, s in other.held])
        )
