"""Judging examples at full precision: what a model makes of them, whatever an attack says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import attrs
import torch
from torch import Tensor

from unmask.evaluation.ledger import margins, mistaken
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.random import SampleRandom

if TYPE_CHECKING:
    from unmask.kernels import Kernels

__all__ = ["PROTOCOLS", "Judge", "Judgement", "Protocol"]

Purpose = Literal["report", "screening"]
Protocol = Literal["expected", "single-draw"]

PROTOCOLS: tuple[str, ...] = get_args(Protocol)
"""How a randomised model is scored: by its expected correctness, or by one draw."""


@attrs.frozen(eq=False)
class Judgement:
    """What a model makes of some examples; every field has one entry per example.

    Attributes:
        correct: Probability of the right answer, float64; 0 or 1 for a deterministic model.
        prediction: Most likely class, int64.
        confidence: Largest mean softmax probability, float64.
        margin: Mean of the label's logit minus the largest other, float64; -inf where not finite.
        finite: All logits were finite, bool.
        missed: Probability that the attacker's aim is missed, float64: `correct`, or that the prediction is
            not the target.
        gap: Mean margin that stands between: `margin`, or the largest other logit less the target's.
        label_probability: Mean softmax probability of the label, float64.
        squared_probability: Sum over classes of the squared mean softmax probabilities, float64.
    """

    correct: Tensor
    prediction: Tensor
    confidence: Tensor
    margin: Tensor
    finite: Tensor
    missed: Tensor
    gap: Tensor
    label_probability: Tensor
    squared_probability: Tensor

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

    Under the protocol ``single-draw`` a report is one draw instead, of the member too, as much of the
    literature has it. It is the same draw for every example of a sample, the clean image's included; examples
    are still chosen by their expectation.

    Attributes:
        oracle: The model.
        ids: The samples' own index, one for each row.
        labels: Their classes.
        seed: The run's seed.
        draws: How many draws stand for the expectation.
        kernels: Source of random numbers.
        targets: Classes to be reached, one for each row; None: any but the label.
        protocol: ``expected`` or ``single-draw``.
    """

    oracle: Oracle
    ids: Tensor
    labels: Tensor
    seed: int
    draws: int
    kernels: Kernels
    targets: Tensor | None = None
    protocol: Protocol = "expected"

    @property
    def separate(self) -> bool:
        """Whether choosing an example and reporting it take draws of their own."""
        randomness = self.oracle.facts.randomness
        return randomness == "drawn" or (randomness == "enumerated" and self.protocol == "single-draw")

    def score(self, images: Tensor, rows: Tensor, purpose: Purpose = "report") -> Judgement:
        """Judge one example for each of `rows`."""
        labels = self.labels[rows]
        members = self.oracle.members
        correct = torch.zeros(len(rows), dtype=torch.float64, device=labels.device)
        margin, missed, gap, votes, softmax = correct.clone(), correct.clone(), correct.clone(), None, None
        finite = torch.ones_like(correct, dtype=torch.bool)
        total = torch.zeros_like(correct)
        single = self.protocol == "single-draw" and purpose == "report"
        shares = self._drawn(rows) if single else self._expected(rows)
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
                    ).integers(0, 2**31, (1 if single else self.draws,))
                    logits = self.oracle.draws(member, images, seeds)
                else:
                    logits = self.oracle.answer(member, images, None)[:, None]
                count = logits.shape[1]
                flat, flat_labels = logits.flatten(0, 1), labels.repeat_interleave(count)
                p = shares[k]
                total += p
                right, between = self._means(flat, flat_labels, count)
                correct += p * right
                # Zero times infinity: a member that is not drawn says nothing.
                margin += torch.where(p > 0, p * between, 0.0)
                finite &= torch.isfinite(logits).flatten(1).all(1) | (p == 0)
                if self.targets is not None:
                    hit, ahead = self._means(flat, self.targets[rows].repeat_interleave(count), count)
                    missed += p * (1 - hit)
                    gap -= torch.where(p > 0, p * ahead, 0.0)
                chosen = torch.nn.functional.one_hot(flat.argmax(1), self.oracle.classes).double()
                vote = p[:, None] * chosen.reshape(-1, count, self.oracle.classes).mean(1)
                soft = flat.double().softmax(1).reshape(-1, count, self.oracle.classes).mean(1)
                soft = torch.where(p[:, None] > 0, p[:, None] * soft, 0.0)
                votes = vote if votes is None else votes + vote
                softmax = soft if softmax is None else softmax + soft
        assert votes is not None
        assert softmax is not None
        if self.targets is None:
            missed, gap = correct, margin
        mean = softmax / total[:, None]
        # Dividing by the sum as it was added up makes "always right" exactly 1.
        return Judgement(
            correct=correct / total,
            prediction=votes.argmax(1),
            confidence=mean.amax(1),
            margin=margin / total,
            finite=finite,
            missed=missed / total,
            gap=gap / total,
            label_probability=mean.gather(1, labels[:, None]).squeeze(1),
            squared_probability=mean.square().sum(1),
        )

    @staticmethod
    def _means(logits: Tensor, classes: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """How often the prediction is the class, and the class's mean margin, over `count` draws each."""
        hit = (~mistaken(logits, classes)).double().reshape(-1, count).mean(1)
        return hit, margins(logits, classes).reshape(-1, count).mean(1)

    def _expected(self, rows: Tensor) -> Tensor:
        """Every member's probability, float64 [member, row]."""
        shares = [member.probability for member in self.oracle.members]
        return torch.tensor(shares, dtype=torch.float64, device=rows.device)[:, None].expand(-1, len(rows))

    def _drawn(self, rows: Tensor) -> Tensor:
        """One member for each row with probability 1, the others with 0; float64 [member, row]."""
        ladder = (
            torch.tensor(
                [member.probability for member in self.oracle.members],
                dtype=torch.float64,
                device=rows.device,
            )
            .cumsum(0)[:-1]
            .contiguous()
        )
        place = SampleRandom.for_samples(
            self.ids[rows].tolist(),
            "judge",
            "member",
            self.seed,
            self.oracle.facts.name,
            kernels=self.kernels,
            device=rows.device,
        ).uniform()
        drawn = torch.searchsorted(ladder, place.double(), right=True)
        return torch.nn.functional.one_hot(drawn, len(self.oracle.members)).double().T
