"""The loop of every recipe: batches, updates, checkpoints, measurements."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import attrs
import torch
from torch import Tensor, nn

from unmask.models.foreign_random import RandomState
from unmask.training import TrainingContext
from unmask_plugins.recipes.surroundings import check_loss

__all__ = ["Loop", "Losses", "right_answers"]

LINES = 1000
"""About as many lines the log of a training has at most; each tells the mean since the one before."""

Losses = Callable[[Tensor], tuple[Tensor, Tensor | None]]
"""From the rows of a batch to its mean loss, and the share of right answers where there are answers."""


def right_answers(logits: Tensor, labels: Tensor) -> Tensor:
    """The share of right answers, a scalar without a graph."""
    return (logits.detach().argmax(1) == labels).double().mean()


@attrs.define(kw_only=True, eq=False)
class Loop:
    """Updates on shuffled batches, interrupted and resumed at will with the same result.

    Attributes:
        what: What progress calls it.
        module: What is trained; its state dict is kept in checkpoints.
        optimiser: Updates it.
        schedule: Steps after every update; None: a constant rate.
        generator: Draws the orders; recipes draw from it too.
        images: How many training images there are.
        batch: Images per update.
        updates: How many updates in all.
        whole: Leave out the last images of an epoch where they do not fill a batch.
        context: Takes checkpoints and measurements.
        progress: Told every update.
    """

    what: str
    module: nn.Module
    optimiser: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None
    generator: torch.Generator
    images: int
    batch: int
    updates: int
    whole: bool = False
    context: TrainingContext
    progress: Callable[[str, int, int], None]
    _done: int = attrs.field(default=0, init=False)
    _order: Tensor = attrs.field(factory=lambda: torch.empty(0, dtype=torch.int64), init=False)
    _losses: list[Tensor] = attrs.field(factory=list, init=False)
    _rights: list[Tensor] = attrs.field(factory=list, init=False)
    _started: float = attrs.field(factory=time.monotonic, init=False)

    def run(self, losses: Losses) -> None:
        """Train from the beginning, or from where an interrupted training stopped.

        Raises:
            UserError: The loss is no longer finite.
            KeyboardInterrupt: The end was asked for; the state is kept.
        """
        if (kept := self.context.resumed()) is not None:
            self._resume(kept)
        every = -(-self.updates // LINES)
        while self._done < self.updates:
            if len(self._order) == 0:
                self._order = torch.randperm(self.images, generator=self.generator)
                if self.whole:
                    self._order = self._order[: self.images // self.batch * self.batch]
            rows, self._order = self._order[: self.batch], self._order[self.batch :]
            loss, right = losses(rows)
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self.optimiser.step()
            if self.schedule is not None:
                self.schedule.step()
            self._done += 1
            self._losses.append(loss.detach())
            if right is not None:
                self._rights.append(right)
            if self._done % every == 0 or self._done == self.updates:
                self._tell()
            self.progress(self.what, self._done, self.updates)
            self.context.after_update(self._state)

    def _tell(self) -> None:
        """Log the means since the last line; only here does the loop wait for an accelerator."""
        loss = float(torch.stack(self._losses).double().mean())
        check_loss(loss, self._done)
        self.context.tell(
            step=self._done,
            loss=loss,
            accuracy=float(torch.stack(self._rights).mean()) if self._rights else None,
            seconds=round(time.monotonic() - self._started, 3),
        )
        self._losses, self._rights = [], []

    def _state(self) -> dict[str, Any]:
        return {
            "module": self.module.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "schedule": None if self.schedule is None else self.schedule.state_dict(),
            "generator": self.generator.get_state(),
            "random": RandomState.capture(self.module).as_plain(),
            "done": self._done,
            "order": self._order.clone(),
            "losses": self._losses,
            "rights": self._rights,
            "seconds": time.monotonic() - self._started,
        }

    def _resume(self, kept: dict[str, Any]) -> None:
        device = next(self.module.parameters()).device
        self.module.load_state_dict(kept["module"])
        self.optimiser.load_state_dict(kept["optimiser"])
        if self.schedule is not None:
            self.schedule.load_state_dict(kept["schedule"])
        self.generator.set_state(kept["generator"])
        RandomState.from_plain(self.module, kept["random"]).restore()
        self._done, self._order = kept["done"], kept["order"]
        self._losses = [value.to(device) for value in kept["losses"]]
        self._rights = [value.to(device) for value in kept["rights"]]
        self._started = time.monotonic() - kept["seconds"]
