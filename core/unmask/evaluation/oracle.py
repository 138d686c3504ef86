"""Asking a model so that the answer for a row does not depend on the batch it travels in."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from unmask.evaluation.inspection import Member, ModelFacts
from unmask.models.foreign_random import seed_everything

__all__ = ["Oracle"]

QUANTUM = 8
"""Model calls are filled up to a multiple of this many rows.

Matrix and convolution libraries choose other code for very small batches, whose last bits differ. From eight
rows on a row's answer is the same, bit for bit, in batches of any size; where an inspection finds that it is
not, the model is called one row at a time.
"""


class Oracle:
    """A model as rows in, logits out.

    Args:
        facts: What the inspection found.
        batch_size: The largest number of rows of one model call.
    """

    def __init__(self, facts: ModelFacts, batch_size: int) -> None:
        self.facts = facts
        self.classes = facts.classes
        self.members = facts.members
        self._limit = max(QUANTUM, -(-batch_size // QUANTUM) * QUANTUM)

    def answer(self, member: Member, images: Tensor, seeds: Tensor | None) -> Tensor:
        """Logits [sample, class] of one member; `seeds` (int64, one a row) where it draws."""
        return self.call(member, member.module, images, seeds)

    def call(self, member: Member, module: nn.Module, images: Tensor, seeds: Tensor | None) -> Tensor:
        """As `answer`, through a module that stands for the member, such as its backbone."""
        if len(images) == 0:
            return images.new_zeros((0, self.classes))
        if member.stochastic:
            if seeds is None:
                raise ValueError("a member that draws needs a seed for every row")
            return torch.cat(
                [self._seeded(module, images[i : i + 1], int(s)) for i, s in enumerate(seeds.tolist())]
            )
        if member.alone:
            return torch.cat([module(images[i : i + 1].clone()) for i in range(len(images))])
        return torch.cat([self._filled(module, part) for part in images.split(self._limit)])

    def draws(self, member: Member, images: Tensor, seeds: Tensor) -> Tensor:
        """Logits [sample, draw, class] of repeated questions; `seeds` is int64 [sample, draw].

        Copies share a call where the model draws for every row on its own, `QUANTUM` at a time.
        """
        rows = []
        for i in range(len(images)):
            image = images[i : i + 1]
            if member.rows_vary:
                parts = [
                    self._seeded(member.module, image.expand(QUANTUM, *image.shape[1:]), int(s))
                    for s in seeds[i, ::QUANTUM].tolist()
                ]
                rows.append(torch.cat(parts)[: seeds.shape[1]])
            else:
                rows.append(
                    torch.cat([self._seeded(member.module, image, int(s)) for s in seeds[i].tolist()])
                )
        if not rows:
            return images.new_zeros((0, seeds.shape[1], self.classes))
        return torch.stack(rows)

    @staticmethod
    def _seeded(module: nn.Module, images: Tensor, seed: int) -> Tensor:
        seed_everything(module, seed)
        logits: Tensor = module(images)
        return logits

    @staticmethod
    def _filled(module: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        missing = -len(images) % QUANTUM
        if not missing:
            return module(images)
        filler = images[-1:].detach().expand(missing, *images.shape[1:])
        return module(torch.cat([images, filler]))[: len(images)]
