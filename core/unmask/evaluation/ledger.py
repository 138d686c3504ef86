"""What the door writes down: counts, the best valid example of every sample, the health of gradients."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from unmask.evaluation.oracle import Oracle
from unmask.evaluation.random import SampleRandom
from unmask.evaluation.rows import first_of_each, occurrence
from unmask.evaluation.threat import Ball, rounding_allowance

__all__ = ["CellTimeoutError", "Ledger", "margins", "mistaken"]


class CellTimeoutError(RuntimeError):
    """A cell used up its time."""


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """Logit of the label minus the largest other, float64 [sample]; -inf where a logit is not finite."""
    values = logits.detach().double()
    own = values.gather(1, labels[:, None]).squeeze(1)
    others = values.scatter(1, labels[:, None], -torch.inf).amax(1)
    return torch.where(torch.isfinite(values).all(1), own - others, -torch.inf)


def mistaken(logits: Tensor, labels: Tensor) -> Tensor:
    """Where the first largest logit is not the label's, or a logit is not finite; bool [sample]."""
    finite = torch.isfinite(logits.detach()).all(1)
    return (logits.detach().argmax(1) != labels) | ~finite


@attrs.define(eq=False)
class Ledger:
    """What the door writes down for the samples of one cell; shared by all its views.

    Attributes:
        oracle: The model.
        clean: The clean images [sample, channel, height, width].
        labels: Their classes.
        ball: The threat model; its radius is inf for a nearest search.
        random: The model's own randomness, one stream per sample.
        nearest: Keep the closest adversarial example instead of the most adversarial one.
        early_exit: A sample counts as done when it is broken; not so for the source of a transfer.
        max_queries: Forwards allowed per sample.
        deadline: `time.monotonic()` at which the cell is over.
    """

    oracle: Oracle
    clean: Tensor
    labels: Tensor
    ball: Ball
    random: SampleRandom
    nearest: bool = False
    early_exit: bool = True
    max_queries: int | None = None
    deadline: float | None = None
    forwards: Tensor = attrs.field(init=False)
    backwards: Tensor = attrs.field(init=False)
    broken: Tensor = attrs.field(init=False)
    best: Tensor = attrs.field(init=False)
    best_score: Tensor = attrs.field(init=False)
    zero_gradients: Tensor = attrs.field(init=False)
    nonfinite_gradients: Tensor = attrs.field(init=False)
    gradient_norms: Tensor = attrs.field(init=False)
    last_logits: Tensor | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        def column(dtype: torch.dtype, value: float = 0) -> Tensor:
            return torch.full((len(self.clean),), value, dtype=dtype, device=self.clean.device)

        self.forwards = column(torch.int64)
        self.backwards = column(torch.int64)
        self.broken = column(torch.bool)
        self.best = self.clean.clone()
        self.best_score = column(torch.float64, torch.inf)
        self.zero_gradients = column(torch.int64)
        self.nonfinite_gradients = column(torch.int64)
        self.gradient_norms = column(torch.float64)

    @property
    def deterministic(self) -> bool:
        """Whether the best example seen can be known."""
        return self.oracle.facts.randomness == "deterministic"

    @property
    def spent(self) -> Tensor:
        """Samples whose query budget is used up, bool [sample]."""
        if self.max_queries is None:
            return torch.zeros_like(self.broken)
        return self.forwards >= self.max_queries

    def affordable(self, rows: Tensor) -> Tensor | None:
        """Which of these queries the budgets still cover; None: all."""
        if self.max_queries is None:
            return None
        covered = self.forwards[rows] + occurrence(rows) < self.max_queries
        return None if bool(covered.all()) else covered

    def saw_gradient(self, rows: Tensor, gradient: Tensor) -> None:
        """Count a backward pass of these rows and note the health of what came through."""
        flat = gradient.flatten(1)
        finite = torch.isfinite(flat).all(1)
        norm = torch.where(finite, torch.linalg.vector_norm(flat, dim=1).double(), 0.0)
        zero = finite & (flat == 0).all(1)
        self.backwards.index_add_(0, rows, torch.ones_like(rows))
        self.zero_gradients.index_add_(0, rows, zero.to(torch.int64))
        self.nonfinite_gradients.index_add_(0, rows, (~finite).to(torch.int64))
        self.gradient_norms.index_add_(0, rows, norm)

    def saw_answer(self, rows: Tensor, images: Tensor, logits: Tensor) -> None:
        """Keep what is better than before among valid examples."""
        labels = self.labels[rows]
        wrong = mistaken(logits, labels)
        if self.nearest:
            candidates = wrong
            score = self.ball.distance(images, self.clean[rows])
        else:
            score = margins(logits, labels)
            candidates = wrong | (score < self.best_score[rows])
        chosen = (candidates & (score < self.best_score[rows])).nonzero().squeeze(1)
        if len(chosen) == 0:
            return
        images, rows, score, wrong = images[chosen], rows[chosen], score[chosen], wrong[chosen]
        valid = self.valid(images, rows)
        if not bool(valid.any()):
            return
        images, rows, score, wrong = images[valid], rows[valid], score[valid], wrong[valid]
        first = first_of_each(rows, score)
        self.best[rows[first]] = images[first]
        self.best_score[rows[first]] = score[first]
        if self.early_exit and not self.nearest:
            self.broken[rows[wrong]] = True

    def valid(self, images: Tensor, rows: Tensor) -> Tensor:
        """Finite and inside ball and box up to what rounding explains, bool [query]."""
        centres = self.clean[rows]
        size = centres[0].numel() if len(centres) else 1
        low, high = self.ball.bounds
        slack = rounding_allowance(self.ball.bounds, "linf", size)
        flat = images.flatten(1)
        inside = ((flat >= low - slack) & (flat <= high + slack)).all(1)
        reach = self.ball.epsilon + rounding_allowance(self.ball.bounds, self.ball.norm, size)
        return inside & (self.ball.distance(images, centres) <= reach)
