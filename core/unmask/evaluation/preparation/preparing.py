"""Choosing, once per model and run, the form in which it is searched."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import attrs
import torch

from unmask.evaluation.batching import BatchSize, padded, rows_at_once, samples_at_once
from unmask.evaluation.inspection import ModelFacts
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.preparation.choosing import COMPARED, Choosing, Chosen, Purpose
from unmask.evaluation.preparation.forms import FormName, Forms
from unmask.evaluation.preparation.workload import passes
from unmask.evaluation.suite import is_suite
from unmask.models.guest import Visit
from unmask.results.atomic import write_atomically

if TYPE_CHECKING:
    from unmask.evaluation.plan import Plan
    from unmask.results.folder import RunFolder

__all__ = ["Preparation", "Prepared"]

PATIENCE = 8
"""The first search's first questions about a sample that the model itself answers, with `auto`.

On a model that is not robust most samples fall within these, before a faster form would have paid for being
made and checked; it is made when a sample stands longer.
"""

EMPTY: Mapping[str, Any] = {}


def _is_record(found: Any) -> bool:
    """Whether what a file holds for a model can have been chosen for it."""
    if not isinstance(found, Mapping):
        return False
    rows, together = found.get("rows-per-call"), found.get("batch-size")
    return (
        found.get("backend") in get_args(FormName)
        and found.get("precision") in ("float32", "bfloat16")
        and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in (rows, together))
    )


@attrs.frozen(eq=False)
class Prepared:
    """A model, ready to be searched.

    Attributes:
        search: Asks its fastest form.
        single: Asks its fastest form in float32; the same unless the run is in half precision.
        again: The same for the few samples that are searched again: one row a call on the CPU, where calls of
            few rows would be filled up.
        batch: How many samples are attacked together.
        record: What was chosen and measured, JSON-able; filled when a form is first asked for.
    """

    search: Oracle
    single: Oracle
    again: Oracle
    batch: BatchSize
    record: dict[str, Any]


@attrs.define(eq=False)
class Preparation:
    """Prepares the models of a run, each when a search first asks for more than its patience.

    Attributes:
        purpose: What they are prepared for.
        batch_size: Given by the user.
        path: The file that keeps what was chosen; None: it is not kept.
        notes: Sentences about models that could not be prepared.
        chosen: What another process chose, by model; used where no file says so.
        hurried: A cell has a time limit, which must not go into preparing.
    """

    purpose: Purpose
    batch_size: int | None = None
    path: Path | None = None
    notes: list[str] = attrs.field(factory=list)
    chosen: Mapping[str, dict[str, Any]] = attrs.field(factory=dict)
    hurried: bool = False
    _choosing: Choosing = attrs.field(init=False)
    _prepared: dict[str, Prepared] = attrs.field(init=False, factory=dict)
    _visit: Visit | None = attrs.field(init=False, default=None)
    _choices: dict[str, Chosen] = attrs.field(init=False, factory=dict)
    _before: dict[str, dict[str, Any]] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._choosing = Choosing(self.purpose, self.notes)

    @classmethod
    def planned(
        cls, plan: Plan, *, prepare: str, precision: str, batch_size: int | None, folder: RunFolder | None
    ) -> Preparation:
        """What the models of a plan are prepared for.

        Args:
            plan: The samples, attacks and radii.
            prepare: ``auto``, or the form to use.
            precision: ``float32`` or ``fast``.
            batch_size: Given by the user.
            folder: Where earlier choices are kept, so that a run that goes on goes on with them.
        """
        attacks = [a for a in plan.attacks.values() if not is_suite(a)]
        purpose = Purpose(
            prepare=prepare,
            precision=precision,
            images=plan.data.images[:COMPARED],
            epsilon=max(plan.epsilons),
            bounds=plan.settings.bounds,
            work=float(sum(passes(a) for a in attacks) * len(plan.data) * len(plan.epsilons)),
            gradients=any(a.access == "gradients" for a in attacks),
        )
        return cls(
            purpose,
            batch_size=batch_size,
            path=None if folder is None else folder.path / "preparation.json",
            hurried=any(a.timeout is not None for a in attacks) or plan.settings.timeout is not None,
        )

    def applied(self, plan: Plan, facts: Mapping[str, ModelFacts]) -> Plan:
        """The plan with every model prepared; call inside `guests`."""
        self._before, self._visit = self._kept(), plan.visit
        self._prepared = {name: self.of(known, self._before.get(name, {})) for name, known in facts.items()}
        if self.purpose.prepare != "auto" or self.hurried:
            self.settle()
        others = {name: prepared.search for name, prepared in self._prepared.items()}
        subjects = [
            attrs.evolve(
                subject,
                others=others,
                prepared=self._prepared[subject.name],
                batch=self._prepared[subject.name].batch,
            )
            for subject in plan.subjects
        ]
        return attrs.evolve(plan, subjects=subjects)

    def settle(self) -> None:
        """Prepare now what would be prepared when it is first asked for."""
        for prepared in self._prepared.values():
            prepared.search.settle()

    def record(self) -> dict[str, Any]:
        """What was chosen and measured, and how often batches were halved and graphs compiled; JSON-able."""
        return {
            "prepare": self.purpose.prepare,
            "compilations": self._choosing.compilations.count,
            "models": {
                name: {**prepared.record, "halvings": prepared.batch.halvings}
                for name, prepared in self._prepared.items()
            },
        }

    def for_worker(self) -> Preparation:
        """The same for another process, which prepares its copies of the models as these are."""
        self.settle()
        return Preparation(
            self.purpose,
            batch_size=self.batch_size,
            chosen={name: prepared.record for name, prepared in self._prepared.items()},
        )

    def _keep(self) -> None:
        """Write down what was chosen, where a run that goes on will look for it."""
        if self.path is None:
            return
        made = {name: self._prepared[name].record for name in self._choices if name in self._prepared}
        try:
            write_atomically(self.path, json.dumps({**self._before, **made}, indent=2) + "\n")
        except OSError as error:
            note = f"{self.path.name} could not be written ({error}); a run that goes on chooses anew."
            if note not in self.notes:
                self.notes.append(note)

    def _kept(self) -> dict[str, dict[str, Any]]:
        """What the run folder says was chosen, by model; nothing where it says nothing."""
        if self.path is None:
            return dict(self.chosen)
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            return {str(name): dict(record) for name, record in found.items() if _is_record(record)}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def of(self, facts: ModelFacts, kept: Mapping[str, Any] = EMPTY) -> Prepared:
        """Prepare a model.

        Args:
            facts: What the inspection found.
            kept: What was chosen for it before.
        """
        prepare, half = self.purpose.prepare, self.purpose.half
        shown = self.purpose.images.to(device=facts.device, dtype=facts.dtype)
        together = self.batch_size or samples_at_once(shown[0])
        rows = min(rows_at_once(shown[0]), padded(together))
        record: dict[str, Any] = {"backend": "eager", "precision": "float32"}
        record |= {"batch-size": together, "rows-per-call": rows}
        reason = self._why_plain(facts)
        asked = half or prepare not in ("auto", "eager")
        if reason is not None and asked:
            record["note"] = reason
            self.notes.append(f"model '{facts.name}' is searched as it is, in float32: {reason}.")
        if reason is not None or not (asked or prepare == "auto"):
            oracle = Oracle(facts, rows)
            return Prepared(oracle, oracle, oracle, BatchSize(together), record)
        if kept:
            # Cells that an earlier process finished were searched in this form.
            record |= {key: value for key, value in kept.items() if key != "batch-size"}
        else:
            record["note"] = "not prepared: no search asked about a sample for long"

        def chosen() -> Chosen:
            if facts.name not in self._choices:
                changed = None if self._visit is None else self._visit.put_back()
                if changed is not None:
                    raise RuntimeError(changed)
                record.pop("note", None)
                self._choices[facts.name] = self._choosing.choose(facts, shown, rows, record, kept)
                self._keep()
            return self._choices[facts.name]

        patience = PATIENCE if prepare == "auto" else 0
        search = Oracle(facts, rows, lambda: (chosen().forms, chosen().rows), patience)
        if not half:
            return Prepared(search, search, search, BatchSize(together), record)
        on_cpu = facts.device.type == "cpu"

        def in_float32(alone: bool) -> Callable[[], tuple[Forms | None, int]]:
            def found() -> tuple[Forms | None, int]:
                forms = chosen().forms and self._choosing.single(facts, shown, alone=alone)
                return forms, rows

            return found

        single = Oracle(facts, rows, in_float32(alone=False), patience)
        again = Oracle(facts, rows, in_float32(alone=on_cpu), patience, alone=on_cpu)
        return Prepared(search, single, again, BatchSize(together), record)

    def _why_plain(self, facts: ModelFacts) -> str | None:
        """Why a model cannot be prepared, if it cannot."""
        if any(member.stochastic for member in facts.members):
            return "it draws random numbers when called"
        if any(member.alone for member in facts.members):
            return "it must be called one image at a time"
        if any(member.fixed is not None for member in facts.members):
            return "its answers depend on how many rows a call has"
        if facts.dtype != torch.float32:
            return f"its weights are {str(facts.dtype).removeprefix('torch.')}"
        return None
