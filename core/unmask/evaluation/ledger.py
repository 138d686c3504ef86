"""What the door writes down: counts, the best valid example of every sample, the health of gradients."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from unmask.evaluation.batching import rows_at_once
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.random import SampleRandom
from unmask.evaluation.rows import first_of_each, occurrence
from unmask.evaluation.threat import Ball, rounding_allowance

__all__ = ["Ledger", "margins", "mistaken"]


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
        targets: Classes to be reached, int64 [sample]: a sample is broken when it is classified so.
        max_queries: Forwards allowed per sample.
        deadline: `time.monotonic()` at which the cell is over.
        patience: This search's first questions about a sample that the plain model answers; None: as many as
            the oracle says.
    """

    oracle: Oracle
    clean: Tensor
    labels: Tensor
    ball: Ball
    random: SampleRandom
    nearest: bool = False
    early_exit: bool = True
    targets: Tensor | None = None
    max_queries: int | None = None
    deadline: float | None = None
    patience: int | None = None
    forwards: Tensor = attrs.field(init=False)
    backwards: Tensor = attrs.field(init=False)
    broken: Tensor = attrs.field(init=False)
    best: Tensor = attrs.field(init=False)
    best_score: Tensor = attrs.field(init=False)
    zero_gradients: Tensor = attrs.field(init=False)
    nonfinite_gradients: Tensor = attrs.field(init=False)
    gradient_norms: Tensor = attrs.field(init=False)
    hints: Tensor = attrs.field(init=False)
    begun: Tensor = attrs.field(init=False)
    last_logits: Tensor | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        def column(dtype: torch.dtype, value: float = 0) -> Tensor:
            return torch.full((len(self.clean),), value, dtype=dtype, device=self.clean.device)

        self.forwards = column(torch.int64)
        self.begun = self.forwards.clone()
        if self.patience is None:
            self.patience = self.oracle.patience
        self.backwards = column(torch.int64)
        self.broken = column(torch.bool)
        self.best = self.clean.clone()
        self.best_score = column(torch.float64, torch.inf)
        self.hints = column(torch.float64, torch.inf)
        self.zero_gradients = column(torch.int64)
        self.nonfinite_gradients = column(torch.int64)
        self.gradient_norms = column(torch.float64)

    def carry_on(self, earlier: Ledger, rows: Tensor) -> None:
        """Count on from where another search for some of its samples stopped."""
        for name in ("forwards", "backwards", "zero_gradients", "nonfinite_gradients", "gradient_norms"):
            setattr(self, name, getattr(earlier, name)[rows].clone())
        self.begun = self.forwards.clone()

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

    def first_questions(self, rows: Tensor) -> Tensor | None:
        """Which of these questions the plain model answers, being this search's first about a sample.

        A search that soon succeeds is over before a faster form of the model would pay. Counted for every
        sample alone, so that the answers do not depend on which samples are asked about together. None: none.
        """
        if not self.patience:
            return None
        asked = self.forwards[rows] - self.begun[rows]
        if len(rows) == 0 or int(asked.amin()) >= self.patience:
            return None
        return asked + occurrence(rows) < self.patience

    def saw_gradient(self, rows: Tensor, gradient: Tensor) -> None:
        """Count a backward pass of these rows and note the health of what came through."""
        flat = gradient.flatten(1)
        norm = torch.linalg.vector_norm(flat, dim=1)
        # One pass tells most; where squares overflowed or vanished the entries are looked at.
        if bool((torch.isfinite(norm) & (norm > 0)).all()):
            zero = nonfinite = torch.zeros_like(rows)
        else:
            finite = torch.isfinite(flat).all(1)
            zero = (finite & (flat == 0).all(1)).to(torch.int64)
            nonfinite = (~finite).to(torch.int64)
            norm = torch.where(finite, norm, 0.0)
        self.backwards.index_add_(0, rows, torch.ones_like(rows))
        self.zero_gradients.index_add_(0, rows, zero)
        self.nonfinite_gradients.index_add_(0, rows, nonfinite)
        self.gradient_norms.index_add_(0, rows, norm.double())

    def saw_answer(self, rows: Tensor, images: Tensor, logits: Tensor, *, exact: bool) -> None:
        """Keep what is better than before among valid examples.

        Logits of a faster form of the model are only a hint: what seems to break a sample, or nearly so, is
        shown to the plain model, and its answer counts.

        Args:
            rows: The samples.
            images: What was shown.
            logits: What was answered.
            exact: By the plain model.
        """
        wrong, score = self._judged(rows, logits)
        distance = self.ball.distance(images, self.clean[rows]) if self.nearest else None
        if not exact and self.early_exit:
            wrong, score = self._confirmed(rows, images, wrong, score, distance)
        if distance is not None:
            score = torch.where(wrong, distance, torch.inf)
        chosen = (score < self.best_score[rows]).nonzero().squeeze(1)
        if len(chosen) == 0:
            return
        if len(chosen) < len(rows):
            rows, score, wrong = rows[chosen], score[chosen], wrong[chosen]
        taken, valid = self._best_of_each(images, rows, score, wrong, chosen)
        best = rows[taken]
        self.best[best] = images[chosen[taken]]
        self.best_score[best] = score[taken]
        if self.early_exit and not self.nearest:
            self.broken[rows[valid & wrong]] = True

    def _best_of_each(
        self, images: Tensor, rows: Tensor, score: Tensor, wrong: Tensor, chosen: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Of every sample the valid question with the lowest score; and which questions are valid.

        Where a sample is asked about many times at once, only its best question is looked at, if that settles
        it; questions that were not looked at are not called valid.
        """
        first = first_of_each(rows, score)
        if len(first) < len(rows):
            any_wrong = torch.zeros_like(self.broken).index_fill_(0, rows[wrong], True)[rows[first]]
            fits = self.valid(images[chosen[first]], rows[first])
            if bool((fits & (wrong[first] == any_wrong)).all()):
                return first, torch.zeros_like(wrong).index_fill_(0, first, True)
        # As many at once as stay in the cache: fresh memory for all would cost more than looking does.
        some = rows_at_once(images[0])
        parts = zip(chosen.split(some), rows.split(some), strict=True)
        valid = torch.cat([self.valid(images.index_select(0, asked), of) for asked, of in parts])
        if bool(valid.all()):
            return first, valid
        fit = valid.nonzero().squeeze(1)
        return fit[first_of_each(rows[fit], score[fit])], valid

    def _judged(self, rows: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Whether the attacker's aim is reached, and the margin that stands between."""
        if self.targets is None:
            labels = self.labels[rows]
            return mistaken(logits, labels), margins(logits, labels)
        targets = self.targets[rows]
        return ~mistaken(logits, targets), -margins(logits, targets)

    def _confirmed(
        self, rows: Tensor, images: Tensor, wrong: Tensor, score: Tensor, distance: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """What the plain model says of examples at which its faster form errs, or all but errs.

        It is asked only about what would be better than all before, by the form's scores or by distance:
        what it denies once costs no further question. A sample that is broken keeps what broke it.
        """
        claimed = wrong | (score <= self.oracle.error)
        if not bool(claimed.any()):
            return wrong, torch.where(self.broken[rows], torch.inf, score)
        if distance is not None:
            better = distance < self.best_score[rows]
        else:
            better = (score < self.hints[rows]) & ~self.broken[rows]
        asked = (claimed & better).nonzero().squeeze(1)
        lowest = asked[first_of_each(rows[asked], score[asked])]
        self.hints[rows[lowest]] = score[lowest]
        wrong = torch.zeros_like(wrong)
        score = torch.where(claimed | self.broken[rows], torch.inf, score)
        if len(asked):
            with torch.no_grad():
                logits = self.oracle.plain.answer(self.oracle.members[0], images[asked], None)
            plainly = self._judged(rows[asked], logits)
            wrong = wrong.index_copy(0, asked, plainly[0])
            score = score.index_copy(0, asked, plainly[1])
        return wrong, score

    def valid(self, images: Tensor, rows: Tensor) -> Tensor:
        """Finite and inside ball and box up to what rounding explains, bool [query]."""
        centres = self.clean.index_select(0, rows)
        size = centres[0].numel() if len(centres) else 1
        low, high = self.ball.bounds
        slack = rounding_allowance(self.ball.bounds, "linf", size)
        # One after the other: torch.aminmax along a dimension takes ten times as long on CPUs.
        flat = images.flatten(1)
        inside = (flat.amin(1) >= low - slack) & (flat.amax(1) <= high + slack)
        reach = self.ball.epsilon + rounding_allowance(self.ball.bounds, self.ball.norm, size)
        if self.ball.norm == "linf":
            # One subtraction errs by half a unit in the last place, far less than the allowance.
            moved = (images - centres).flatten(1)
            return inside & (moved.amin(1) >= -reach) & (moved.amax(1) <= reach)
        return inside & (self.ball.distance(images, centres) <= reach)
