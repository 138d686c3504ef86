"""Asking a model so that the answer for a row does not depend on the batch it travels in."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from unmask.evaluation.batching import QUANTUM, bucket_for, padded
from unmask.evaluation.inspection import Member, ModelFacts
from unmask.evaluation.preparation.forms import Forms
from unmask.models.foreign_random import seed_everything

__all__ = ["Oracle"]


class Oracle:
    """A model as rows in, logits out.

    Args:
        facts: What the inspection found.
        batch_size: The largest number of rows of one model call.
        forms: Faster forms that answer in the place of the model's parts.

    Attributes:
        facts: What the inspection found.
        classes: Number of logits.
        members: The model's parts.
        plain: The same model as it was given.
        error: By how much a margin may differ from the plain model's.
    """

    def __init__(self, facts: ModelFacts, batch_size: int, forms: Forms | None = None) -> None:
        self.facts = facts
        self.classes = facts.classes
        self.members = facts.members
        self._limit = padded(batch_size)
        self._forms = forms
        self.plain = self if forms is None else Oracle(facts, batch_size)
        self.error = 0.0 if forms is None else forms.error

    @property
    def exact(self) -> bool:
        """Whether the answers are the plain model's own."""
        return self._forms is None

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
        graph = images.requires_grad and torch.is_grad_enabled()
        return self._in_pieces(self.form(module, graph), images)

    def form(self, module: nn.Module, graph: bool) -> nn.Module:
        """What answers in the place of a module of the model.

        Args:
            module: A member, or what stands for one.
            graph: The answer is to be differentiated.
        """
        return module if self._forms is None else self._forms.of(module, graph)

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
        logits: Tensor = module(images.clone(memory_format=torch.contiguous_format))
        return logits

    def _in_pieces(self, module: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """All rows in as few calls as the batch size allows.

        Where nothing is differentiated, a call that does not fit into memory is halved, and so are all later
        ones.
        """
        compiled = self._forms is not None and self._forms.compiled
        parts, first = [], 0
        while first < len(images):
            left = len(images) - first
            size = bucket_for(left, self._limit) if compiled else min(padded(left), self._limit)
            try:
                parts.append(_filled(module, images[first : first + size], size))
            except torch.OutOfMemoryError:
                if (images.requires_grad and torch.is_grad_enabled()) or size <= QUANTUM:
                    raise
                self._limit = padded(size // 2)
                continue
            first += size
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def _filled(module: Callable[[Tensor], Tensor], images: Tensor, size: int) -> Tensor:
    missing = size - len(images)
    if not missing:
        # A copy of its own: some models work in place.
        return module(images.clone())
    filler = images[-1:].detach().expand(missing, *images.shape[1:])
    return module(torch.cat([images, filler]))[: len(images)]
