"""Judging examples at full precision: what a model makes of them, whatever an attack says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs
import torch
from torch import Tensor

from unmask.evaluation.ledger import margins, mistaken
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.random import SampleRandom

if TYPE_CHECKING:
    from unmask.kernels import Kernels

__all__ = ["Judge", "Judgement"]

Purpose = Literal["report", "screening"]


@attrs.frozen(eq=False)
class Judgement:
    """What a model makes of some examples; every field has one entry per example.

    Attributes:
        correct: Probability of the right answer, float64; 0 or 1 for a deterministic model.
        prediction: Most likely class, int64.
        confidence: Largest mean softmax probability, float64.
        margin: Mean of the label's logit minus the largest other, float64; -inf where not finite.
        finite: All logits were finite, bool.
    """

    correct: Tensor
    prediction: Tensor
    confidence: Tensor
    margin: Tensor
    finite: Tensor

    def replaced(self, rows: Tensor, other: Judgement) -> Judgement:
        """This judgement with some entries taken from another (one entry for each of `rows`)."""
        return Judgement(
            *(
                getattr(self, field.name).index_copy(0, rows, getattr(other, field.name))
                for field in attrs.fields(Judgement)
            )
        )

    def select(self, rows: Tensor) -> Judgement:
        """The entries of these rows."""
        return Judgement(*(getattr(self, field.name)[rows] for field in attrs.fields(Judgement)))


@attrs.frozen(eq=False)
class Judge:
    """Scores examples by the expected correctness of the model.

    Exact where the model is deterministic or its members can be enumerated; otherwise the mean over `draws`
    fresh draws. The draws of a sample are the same for every attack (common random numbers), so a model that
    ignores its input scores the same under all of them; those for choosing the worst example (``screening``)
    are independent of those for scoring it (``report``), so that choosing does not bias the score.

    Attributes:
        oracle: The model.
        ids: The samples' own index, one for each row.
        labels: Their classes.
        seed: The run's seed.
        draws: How many draws stand for the expectation.
        kernels: Source of random numbers.
    """

    oracle: Oracle
    ids: Tensor
    labels: Tensor
    seed: int
    draws: int
    kernels: Kernels

    def score(self, images: Tensor, rows: Tensor, purpose: Purpose = "report") -> Judgement:
        """Judge one example for each of `rows`."""
        labels = self.labels[rows]
        members = self.oracle.members
        correct = torch.zeros(len(rows), dtype=torch.float64, device=labels.device)
        margin, votes, softmax = correct.clone(), None, None
        finite = torch.ones_like(correct, dtype=torch.bool)
        total = 0.0
        with torch.no_grad():
            for k, member in enumerate(members):
                if member.stochastic:
                    seeds = SampleRandom.for_samples(
                        self.ids[rows].tolist(),
                        "judge",
                        purpose,
                        self.seed,
                        self.oracle.facts.name,
                        k,
                        kernels=self.kernels,
                        device=labels.device,
                    ).integers(0, 2**31, (self.draws,))
                    logits = self.oracle.draws(member, images, seeds)
                else:
                    logits = self.oracle.answer(member, images, None)[:, None]
                count = logits.shape[1]
                flat, flat_labels = logits.flatten(0, 1), labels.repeat_interleave(count)
                p = member.probability
                total += p
                right = (~mistaken(flat, flat_labels)).double().reshape(-1, count)
                correct += p * right.mean(1)
                margin += p * margins(flat, flat_labels).reshape(-1, count).mean(1)
                finite &= torch.isfinite(logits).flatten(1).all(1)
                chosen = torch.nn.functional.one_hot(flat.argmax(1), self.oracle.classes).double()
                vote = p * chosen.reshape(-1, count, self.oracle.classes).mean(1)
                soft = p * flat.double().softmax(1).reshape(-1, count, self.oracle.classes).mean(1)
                votes = vote if votes is None else votes + vote
                softmax = soft if softmax is None else softmax + soft
        assert votes is not None
        assert softmax is not None
        # Dividing by the sum as it was added up makes "always right" exactly 1.
        return Judgement(
            correct=correct / total,
            prediction=votes.argmax(1),
            confidence=(softmax / total).amax(1),
            margin=margin / total,
            finite=finite,
        )
