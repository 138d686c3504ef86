"""Asking a model so that the answer for a row does not depend on the batch it travels in."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from unmask.evaluation.batching import QUANTUM, bucket_for, call_sizes, is_out_of_memory, padded
from unmask.evaluation.inspection import Member, ModelFacts
from unmask.evaluation.preparation.forms import Forms
from unmask.models.foreign_random import seed_everything

__all__ = ["Oracle"]


class Oracle:
    """A model as rows in, logits out.

    Args:
        facts: What the inspection found.
        batch_size: The largest number of rows of one model call.
        forms: Gives the faster forms that answer in the place of the model's parts, and how many rows a call
            of them has; called at the first question that they are to answer. None: the model itself answers.
        patience: A search's first questions about a sample that the model itself answers.
        alone: Calls of the forms have one row.

    Attributes:
        facts: What the inspection found.
        classes: Number of logits.
        members: The model's parts.
        plain: The same model as it was given.
        patience: As given; 0 where the model itself answers all.
    """

    def __init__(
        self,
        facts: ModelFacts,
        batch_size: int,
        forms: Callable[[], tuple[Forms | None, int]] | None = None,
        patience: int = 0,
        alone: bool = False,
    ) -> None:
        self.facts = facts
        self.classes = facts.classes
        self.members = facts.members
        self.plain = self if forms is None else Oracle(facts, batch_size)
        self.patience = 0 if forms is None else patience
        self._limit = padded(batch_size)
        self._alone = alone
        self._asked_for = forms
        self._found: Forms | None = None

    @property
    def _forms(self) -> Forms | None:
        if self._asked_for is not None:
            self._found, rows = self._asked_for()
            self._asked_for, self._limit = None, padded(rows)
        return self._found

    def settle(self) -> None:
        """Have the forms now that the first question would ask for."""
        self._forms  # noqa: B018 - looking is asking

    @property
    def exact(self) -> bool:
        """Whether the answers are the plain model's own."""
        return self._forms is None

    @property
    def error(self) -> float:
        """By how much a margin may differ from the plain model's."""
        return 0.0 if self._forms is None else self._forms.error

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
        return self._in_pieces(self.form(module, graph), images, member)

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

    def _in_pieces(self, module: Callable[[Tensor], Tensor], images: Tensor, member: Member) -> Tensor:
        """All rows in as few calls as the batch size allows.

        Where nothing is differentiated, a call that does not fit into memory is halved, and so are all later
        ones.
        """
        parts, first = [], 0
        while first < len(images):
            left = len(images) - first
            rows, size = self._next_call(left, member, images.device)
            try:
                parts.append(_filled(module, images[first : first + rows], size))
            except Exception as cause:
                graph = images.requires_grad and torch.is_grad_enabled()
                if graph or size <= member.least or not is_out_of_memory(cause):
                    raise
                half = padded(size // 2)
                self._limit = half if half < size else member.least
                continue
            first += rows
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _next_call(self, left: int, member: Member, device: torch.device) -> tuple[int, int]:
        """How many of the rows that are left go into the next call, and to how many it is filled up."""
        if member.fixed is not None:
            return min(left, member.fixed), member.fixed
        forms = self._forms
        if self._alone and forms is not None:
            return 1, 1
        limit = max(self._limit, member.least)
        if forms is not None and forms.compiled:
            size = bucket_for(left, limit)
            return min(size, left), size
        rows = call_sizes(left, limit)[0]
        return rows, max(rows, member.least) if device.type == "cpu" else padded(rows)


def _filled(module: Callable[[Tensor], Tensor], images: Tensor, size: int) -> Tensor:
    missing = size - len(images)
    if not missing:
        # A copy of its own: some models work in place.
        return module(images.clone())
    filler = images[-1:].detach().expand(missing, *images.shape[1:])
    return module(torch.cat([images, filler]))[: len(images)]
