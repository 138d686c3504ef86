"""The door: the only way an attack reaches a model.

It counts, enforces budgets, keeps the best valid example of every sample of a deterministic model, and looks
at every gradient that passes. What an attack claims is never needed: the door saw it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from unmask.errors import UserError
from unmask.evaluation.backward import Replace, Severed, StraightThrough, Watch
from unmask.evaluation.going_round import going_round
from unmask.evaluation.inspection import Member
from unmask.evaluation.ledger import Ledger
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.rows import first_of_each
from unmask.interrupt import CellTimeoutError
from unmask.models.reference import ModelReference

__all__ = ["Target"]

Ask = Callable[[Oracle, Member, Tensor, "Tensor | None"], Tensor]
"""How one member is asked: the model, the member, images, and seeds where it draws."""


class Target:
    """A model as an attack sees it: `target(images)` gives logits for exactly these rows.

    Attributes:
        bounds: Smallest and largest valid pixel value.
        classes: Number of logits.
        randomised: The model draws random numbers, or a member, at every call.
    """

    def __init__(
        self,
        ledger: Ledger,
        rows: Tensor | None = None,
        *,
        member: int | None = None,
        others: Mapping[str, Callable[[Tensor], Target]] | None = None,
        run: Sequence[str] = (),
    ) -> None:
        self._ledger = ledger
        self._rows = torch.arange(len(ledger.clean), device=ledger.clean.device) if rows is None else rows
        self._member = member
        self._others = others or {}
        self._run = tuple(run)
        facts = ledger.oracle.facts
        self.bounds = ledger.ball.bounds
        self.classes = facts.classes
        self.randomised = facts.randomness != "deterministic"

    def __len__(self) -> int:
        return len(self._rows)

    def select(self, rows: Tensor) -> Target:
        """The same door for some of its rows: positions (repeats allowed) or a mask."""
        return self._view(self._rows[rows], self._member)

    def _view(self, rows: Tensor, member: int | None) -> Target:
        return Target(self._ledger, rows, member=member, others=self._others, run=self._run)

    @property
    def name(self) -> str:
        """What the run calls the model."""
        return self._ledger.oracle.facts.name

    @property
    def run(self) -> tuple[str, ...]:
        """The names of all models of the run, this one among them; `other` opens their doors."""
        return self._run

    @property
    def targets(self) -> Tensor | None:
        """The classes to be reached, int64 [row]; None in an untargeted run."""
        targets = self._ledger.targets
        return None if targets is None else targets[self._rows]

    @property
    def broken(self) -> Tensor:
        """Which rows have a valid adversarial example, bool [row]; never set for randomised models.

        In a targeted run that is one that is classified as the target.
        """
        return self._ledger.broken[self._rows]

    @property
    def exhausted(self) -> Tensor:
        """Which rows have spent their query budget, bool [row]."""
        return self._ledger.spent[self._rows]

    @property
    def active(self) -> Tensor:
        """Which rows are worth another query, bool [row]."""
        return ~(self.broken | self.exhausted)

    @property
    def has_front_end(self) -> bool:
        """Whether `bypass` has something to go round."""
        return any(m.has_front_end for m in self._shown)

    @property
    def members(self) -> list[tuple[float, Target]] | None:
        """Every member with its probability, where the randomness can be enumerated; else None."""
        if any(m.stochastic for m in self._shown):
            return None
        if self._member is not None or len(self._ledger.oracle.members) == 1:
            return [(1.0, self)]
        return [(m.probability, self._view(self._rows, k)) for k, m in enumerate(self._ledger.oracle.members)]

    @property
    def _shown(self) -> tuple[Member, ...]:
        members = self._ledger.oracle.members
        return members if self._member is None else (members[self._member],)

    def other(self, model: ModelReference | str) -> Target:
        """Another model of the run, for the same rows; its queries are not counted as this model's.

        Its rows are never `broken`: a transferred example must do more than just cross the source's border.

        Raises:
            UserError: The run has no such model.
        """
        name = model if isinstance(model, str) else model.key
        if name not in self._others:
            raise UserError(f"the run has no model '{name}'. Known: {', '.join(self._others) or 'none'}.")
        return self._others[name](self._rows)

    def __call__(self, images: Tensor) -> Tensor:
        """Logits [row, class]; differentiable where `images` requires a gradient.

        A row whose query budget is spent gets its last logits again.

        Raises:
            ValueError: Not one image for every row, or of another shape than the clean ones.
        """
        return self._query(images, Oracle.answer)

    def bypass(self, images: Tensor, *, at: str = "input") -> Tensor:
        """Logits of the whole model whose backward pass goes round the front end (BPDA).

        Athalye, Carlini & Wagner (2018), section 4.1. One forward and one backward are counted.

        Args:
            images: One for every row.
            at: ``input``: the backbone's Jacobian at the image itself. ``front-end``: at the front end's
                output, then through the front end's declared surrogate; straight through without one.

        Raises:
            ValueError: No member has a front end, or `at` is unknown.
        """
        if not self.has_front_end:
            raise ValueError("bypass needs a model with a front end (unmask.Defended)")
        if at not in ("input", "front-end"):
            raise ValueError(f"bypass is taken at 'input' or 'front-end', not '{at}'")
        return self._query(images, partial(_bypassed, at=at))

    def _query(self, images: Tensor, ask: Ask) -> Tensor:
        ledger, rows = self._ledger, self._rows
        if (
            images.ndim != ledger.clean.ndim
            or len(images) != len(rows)
            or images.shape[1:] != ledger.clean.shape[1:]
        ):
            raise ValueError(
                f"the target has {len(rows)} rows of shape {tuple(ledger.clean.shape[1:])}, "
                f"not {tuple(images.shape)}; use target.select(rows) for fewer or repeated rows"
            )
        if ledger.deadline is not None and time.monotonic() > ledger.deadline:
            raise CellTimeoutError
        covered = ledger.affordable(rows)
        if covered is None:
            return self._answered(images, rows, ask)
        paid = covered.nonzero().squeeze(1)
        if len(paid):
            fresh = self._answered(images[paid], rows[paid], ask)
        last = ledger.last_logits
        if last is None:
            last = images.new_zeros((len(ledger.clean), self.classes))
        logits = last[rows].to(images.dtype)
        if len(paid):
            logits = logits.index_copy(0, paid, fresh)
        if images.requires_grad and not logits.requires_grad:
            logits = Severed.apply(logits, images)
        return logits

    def _answered(self, images: Tensor, rows: Tensor, ask: Ask) -> Tensor:
        """Answers to these questions, a search's first ones about a sample by the plain model."""
        oracle = self._ledger.oracle
        first = self._ledger.first_questions(rows)
        if first is None:
            return self._answered_by(oracle, images, rows, ask)
        if bool(first.all()):
            return self._answered_by(oracle.plain, images, rows, ask)
        parts = [first.nonzero().squeeze(1), (~first).nonzero().squeeze(1)]
        answers = [
            self._answered_by(by, images[part], rows[part], ask)
            for by, part in zip((oracle.plain, oracle), parts, strict=True)
        ]
        return torch.cat(answers)[torch.cat(parts).argsort()]

    def _answered_by(self, oracle: Oracle, images: Tensor, rows: Tensor, ask: Ask) -> Tensor:
        ledger = self._ledger
        shown = images.to(dtype=ledger.clean.dtype, device=ledger.clean.device)
        graph = shown.requires_grad and torch.is_grad_enabled()
        if graph:
            shown = Watch.apply(shown, ledger, rows)
        ledger.forwards.index_add_(0, rows, torch.ones_like(rows))
        logits = self._drawn(oracle, shown, rows, ask)
        if graph and not logits.requires_grad:
            logits = Severed.apply(logits, shown)
        if ledger.deterministic:
            ledger.saw_answer(rows, shown.detach(), logits, exact=oracle.exact)
        if ledger.max_queries is not None:
            if ledger.last_logits is None:
                ledger.last_logits = logits.new_zeros((len(ledger.clean), self.classes))
            newest = first_of_each(rows, -torch.arange(len(rows), device=rows.device))
            ledger.last_logits[rows[newest]] = logits.detach()[newest]
        return logits

    def _drawn(self, oracle: Oracle, images: Tensor, rows: Tensor, ask: Ask) -> Tensor:
        """Answer every row by a member of its own draw, or by the member this view shows."""
        ledger = self._ledger
        members = oracle.members
        random = ledger.random.select(rows)
        seeds = None
        if any(m.stochastic for m in self._shown):
            seeds = random.integers(0, 2**31)
        if self._member is not None or len(members) == 1:
            return ask(oracle, self._shown[0], images, seeds)
        shares = torch.tensor([m.probability for m in members], dtype=torch.float64, device=rows.device)
        ladder = shares.cumsum(0)[:-1].contiguous()
        drawn = torch.searchsorted(ladder, random.uniform().double(), right=True)
        order, parts = [], []
        for k in drawn.unique().tolist():
            mine = (drawn == k).nonzero().squeeze(1)
            order.append(mine)
            parts.append(ask(oracle, members[k], images[mine], None if seeds is None else seeds[mine]))
        if not parts:
            return images.new_zeros((0, self.classes))
        return torch.cat(parts)[torch.cat(order).argsort()]


def _bypassed(oracle: Oracle, member: Member, images: Tensor, seeds: Tensor | None, *, at: str) -> Tensor:
    """What `Target.bypass` asks."""
    if not (member.has_front_end and images.requires_grad):
        return oracle.answer(member, images, seeds)
    if member.front_end is None:
        return _bypassed_inside(oracle.plain, member, images, seeds, at)
    if at == "front-end":
        return oracle.call(member, StraightThrough(member.module), images, seeds)
    with torch.no_grad():
        logits = oracle.answer(member, images, seeds)
    through = oracle.call(member, member.backbone, images, seeds)
    return Replace.apply(logits, through)  # type: ignore[no-any-return]


def _bypassed_inside(oracle: Oracle, member: Member, images: Tensor, seeds: Tensor | None, at: str) -> Tensor:
    """The same for a member some parts of which are behind front ends, such as a mean of composites."""
    through = oracle.call(member, going_round(member.module, at), images, seeds)
    if not member.stochastic:
        return through
    # Parts that draw were asked once more on the way: the value has to be that of one and the same draw.
    with torch.no_grad():
        logits = oracle.answer(member, images, seeds)
    return Replace.apply(logits, through)  # type: ignore[no-any-return]
