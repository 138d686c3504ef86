"""How a library's attack is run: it gets the door for a model; what it returns is judged like all else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import torch
from torch import Tensor, nn

from unmask.models.foreign_random import RandomState, seed_everything

if TYPE_CHECKING:
    from unmask.evaluation.random import SampleRandom
    from unmask.evaluation.target import Target
    from unmask.evaluation.threat import Ball

__all__ = ["Answers", "BudgetSpentError", "LibraryAttack", "Problem"]


class BudgetSpentError(RuntimeError):
    """No row may ask again, so the library need not go on."""


class Answers(nn.Module):
    """The door as a library wants a model: images in [0, 1] to logits.

    For one row any number of images may be asked about at a time; for several, one for each.
    """

    def __init__(self, target: Target, device: torch.device) -> None:
        super().__init__()
        self.target = target
        # Libraries look at a parameter to find the device.
        self.mark = nn.Parameter(torch.zeros(0, device=device), requires_grad=False)
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Logits [image, class].

        Raises:
            BudgetSpentError: The query budget of all rows is spent.
        """
        if len(self.target) and bool(self.target.exhausted.all()):
            raise BudgetSpentError
        low, high = self.target.bounds
        shown = images if (low, high) == (0.0, 1.0) else low + (high - low) * images
        if len(self.target) == 1:
            door = self.target.select(torch.zeros(len(images), dtype=torch.int64, device=self.mark.device))
        elif len(images) == len(self.target):
            door = self.target
        else:
            raise ValueError(
                f"the library asks about {len(images)} images where it was given {len(self.target)}, so "
                "nobody can tell whose queries they are; leave 'together' out"
            )
        if not self.target.randomised:
            return door(shown)
        # A randomised model draws from generators that the library draws from as well.
        state = RandomState.capture(self)
        try:
            return door(shown)
        finally:
            state.restore()


@attrs.frozen(eq=False)
class Problem:
    """Some rows of a cell, in a library's terms: the box is [0, 1].

    Attributes:
        model: Images to logits.
        images: The clean ones [sample, channel, height, width], contiguous.
        labels: Their classes, int64 [sample].
        targets: The classes to be reached, int64 [sample]; None in an untargeted run.
        norm: ``linf``, ``l2`` or ``l1``.
        epsilon: The radius in [0, 1]; inf for a nearest search.
        classes: Number of logits.
        seed: For what the library seeds itself; the global generators are seeded with it already.
    """

    model: Answers
    images: Tensor
    labels: Tensor
    targets: Tensor | None
    norm: str
    epsilon: float
    classes: int
    seed: int

    @property
    def p(self) -> float:
        """The norm as a number: inf, 2 or 1."""
        return {"linf": float("inf"), "l2": 2.0, "l1": 1.0}[self.norm]

    @property
    def goals(self) -> Tensor:
        """The targets in a targeted run, else the labels."""
        return self.labels if self.targets is None else self.targets


@attrs.frozen(eq=False)
class LibraryAttack:
    """A library's attack with its options.

    Samples are attacked one at a time: libraries draw from the global generators, and some ask about other
    numbers of images than they were given. Only so is it known whose query it is, and only so is a sample's
    outcome its own. `together` gives that up for speed.

    Attributes:
        library_call: Runs the library on a problem.
        rows_together: Hand over all rows of a batch at once.
    """

    library_call: Callable[[Problem], Tensor]
    rows_together: bool = False

    def __call__(
        self, target: Target, images: Tensor, labels: Tensor, budget: Ball, random: SampleRandom
    ) -> Tensor:
        """What the library returns for every sample."""
        low, high = budget.bounds
        span = high - low
        unit = images if (low, high) == (0.0, 1.0) else (images - low) / span
        found = images.clone()
        seeds = random.integers(0, 2**31).tolist()
        targets = target.targets
        every = torch.arange(len(images), device=images.device)
        state = RandomState.capture(nn.Module())
        try:
            for rows in [every] if self.rows_together else every.split(1):
                if len(rows) == 0:
                    continue
                seed = int(seeds[int(rows[0])])
                seed_everything(nn.Module(), seed)
                clean = unit[rows].contiguous()
                try:
                    adversarial = self.library_call(
                        Problem(
                            model=Answers(target.select(rows), images.device),
                            images=clean.clone(),
                            labels=labels[rows],
                            targets=None if targets is None else targets[rows],
                            norm=budget.norm,
                            epsilon=budget.epsilon / span,
                            classes=target.classes,
                            seed=seed,
                        )
                    )
                except BudgetSpentError:
                    continue
                adversarial = adversarial.detach().to(device=images.device, dtype=images.dtype)
                shown = adversarial if (low, high) == (0.0, 1.0) else low + span * adversarial
                # Unchanged pixels stay what they were, bit for bit.
                found[rows] = torch.where(adversarial == clean, found[rows], shown)
        finally:
            state.restore()
        return found
