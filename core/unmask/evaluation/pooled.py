"""Several models behind one door: an ensemble to make transferable examples on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unmask.errors import UserError
from unmask.evaluation.target import Target
from unmask.models.reference import ModelReference

__all__ = ["PooledTarget"]


class PooledTarget(Target):
    """Doors of several models, for the same rows, as one: logits are the mean of theirs.

    Args:
        doors: At least one; all models have the same classes.
        apart: `members` are the doors, equally likely, so that a gradient source that averages over members
            climbs the mean of their losses; otherwise it is one model, whose loss is that of the mean logits.

    Raises:
        UserError: The models have different numbers of classes.
    """

    def __init__(self, doors: Sequence[Target], *, apart: bool = False) -> None:
        classes = {door.classes for door in doors}
        if len(classes) != 1:
            raise UserError(
                f"models with {', '.join(map(str, sorted(classes)))} classes cannot be attacked together."
            )
        self._doors = tuple(doors)
        self._apart = apart
        self.bounds = doors[0].bounds
        self.classes = doors[0].classes
        self.randomised = any(door.randomised for door in doors)

    def __len__(self) -> int:
        return len(self._doors[0])

    def select(self, rows: Tensor) -> PooledTarget:
        """The same doors for some of their rows."""
        return PooledTarget([door.select(rows) for door in self._doors], apart=self._apart)

    @property
    def name(self) -> str:
        """Of all models."""
        return " + ".join(door.name for door in self._doors)

    @property
    def run(self) -> tuple[str, ...]:
        """The names of all models of the run."""
        return self._doors[0].run

    @property
    def targets(self) -> Tensor | None:
        """The classes to be reached."""
        return self._doors[0].targets

    @property
    def broken(self) -> Tensor:
        """Rows with an example that breaks every model."""
        return torch.stack([door.broken for door in self._doors]).all(0)

    @property
    def exhausted(self) -> Tensor:
        """Rows whose budget is spent at some door."""
        return torch.stack([door.exhausted for door in self._doors]).any(0)

    @property
    def has_front_end(self) -> bool:
        """Whether `bypass` has something to go round at some door."""
        return any(door.has_front_end for door in self._doors)

    @property
    def members(self) -> list[tuple[float, Target]] | None:
        """The doors' members, where each can enumerate its own and they are kept apart."""
        if not self._apart:
            return None if self.randomised else [(1.0, self)]
        found = []
        for door in self._doors:
            # One whose randomness cannot be enumerated answers by a draw.
            members = door.members or [(1.0, door)]
            found += [(p / len(self._doors), member) for p, member in members]
        return found

    def other(self, model: ModelReference | str) -> Target:
        """Another model of the run, for the same rows."""
        return self._doors[0].other(model)

    def __call__(self, images: Tensor) -> Tensor:
        """Mean logits of all models; every door counts a forward."""
        return torch.stack([door(images) for door in self._doors]).mean(0)

    def bypass(self, images: Tensor, *, at: str = "input") -> Tensor:
        """Mean logits whose backward pass goes round the front ends there are."""
        logits = [door.bypass(images, at=at) if door.has_front_end else door(images) for door in self._doors]
        return torch.stack(logits).mean(0)
