"""Choosing, once per model and run, the form in which it is searched."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import torch
from torch import Tensor, nn

from unmask.evaluation.batching import (
    QUANTUM,
    BatchSize,
    buckets,
    padded,
    rows_at_once,
    samples_at_once,
    sizes_that_tell,
)
from unmask.evaluation.inspection import ModelFacts
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.preparation import probing
from unmask.evaluation.preparation.forms import Bfloat16, Compilations, Form, FormName, Forms, build, parts_of
from unmask.evaluation.preparation.workload import operations, passes
from unmask.evaluation.suite import is_suite
from unmask.models.guest import Visit
from unmask.results.atomic import write_atomically

if TYPE_CHECKING:
    from unmask.evaluation.schedule import Plan
    from unmask.results.folder import RunFolder

__all__ = ["Preparation", "Prepared"]

WORTH_PREPARING = 2e12
"""Floating-point operations of a run from which `auto` prepares: ten seconds or so on one core."""

WORTH_COMPILING = {"cuda": 1200.0}
"""Seconds that a run takes at most from which `auto` tries Inductor, whose compilation takes a minute.

Not on the CPU: there it gains little over folded weights with channels innermost, and samples that fall early
make most runs far shorter.
"""

PATIENCE = 8
"""A search's first questions about a sample that the model itself answers, where the form is left to `auto`.

On a model that is not robust most samples fall within these, before a faster form would have paid for being
made and checked; it is made when a sample stands longer.
"""

BACKWARD = 3
"""A forward and a backward pass cost about as much as this many forward passes."""

CLEARLY = 0.9
"""The share of another form's time below which a form counts as faster: noise must not choose."""

TIMED, COMPARED = 16, 32
"""Images that a form is timed with, and compared with the plain model on."""

EMPTY: Mapping[str, Any] = {}


@attrs.frozen(eq=False)
class Prepared:
    """A model, ready to be searched.

    Attributes:
        search: Asks its fastest form.
        again: Asks its fastest form in float32; the same unless the run is in half precision.
        batch: How many samples are attacked together.
        record: What was chosen and measured, JSON-able; filled when a form is first asked for.
    """

    search: Oracle
    again: Oracle
    batch: BatchSize
    record: dict[str, Any]


@attrs.frozen(eq=False)
class _Chosen:
    """The forms of a model.

    Attributes:
        forms: Those that searches ask; None: the model itself.
        single: The same in float32; None: the model itself.
        rows: The rows of a call.
    """

    forms: Forms | None
    single: Forms | None
    rows: int


@attrs.define(eq=False)
class Preparation:
    """Prepares the models of a run.

    A form answers in a model's place only where it was seen to give the same answers and gradients, every row
    on its own. Verdicts are never its business: they are the plain model's.

    Attributes:
        prepare: ``auto``, or the form to use.
        precision: ``fast`` computes in bfloat16.
        images: Clean images, a few, on the CPU.
        epsilon: The largest finite radius, for noise round them.
        bounds: The box.
        work: Passes that the attacks may spend on the samples of one model.
        gradients: An attack uses gradients.
        batch_size: Given by the user.
        path: The file that keeps what was chosen; None: it is not kept.
        notes: Sentences about models that could not be prepared.
        chosen: What another process chose, by model; used where no file says so.
        hurried: A cell has a time limit, which must not go into preparing.
    """

    prepare: str
    precision: str
    images: Tensor
    epsilon: float
    bounds: tuple[float, float]
    work: float
    gradients: bool
    batch_size: int | None = None
    path: Path | None = None
    notes: list[str] = attrs.field(factory=list)
    chosen: Mapping[str, dict[str, Any]] = attrs.field(factory=dict)
    hurried: bool = False
    _compilations: Compilations = attrs.field(factory=Compilations)
    _built: dict[tuple[int, FormName, bool], Form] = attrs.field(factory=dict)
    _parts: list[nn.Module] = attrs.field(factory=list)
    _prepared: dict[str, Prepared] = attrs.field(factory=dict)
    _visit: Visit | None = None
    _choices: dict[str, _Chosen] = attrs.field(factory=dict)

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
        return cls(
            prepare=prepare,
            precision=precision,
            images=plan.data.images[:COMPARED],
            epsilon=max(plan.epsilons),
            bounds=plan.settings.bounds,
            work=float(sum(passes(a) for a in attacks) * len(plan.data) * len(plan.epsilons)),
            gradients=any(a.access == "gradients" for a in attacks),
            batch_size=batch_size,
            path=None if folder is None else folder.path / "preparation.json",
            hurried=any(a.timeout is not None for a in attacks) or plan.settings.timeout is not None,
        )

    def applied(self, plan: Plan, facts: Mapping[str, ModelFacts]) -> Plan:
        """The plan with every model prepared; call inside `guests`."""
        kept, self._visit = self._kept(), plan.visit
        self._prepared = {name: self.of(known, kept.get(name, {})) for name, known in facts.items()}
        if self.prepare != "auto" or self.hurried:
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
            "prepare": self.prepare,
            "compilations": self._compilations.count,
            "models": {
                name: {**prepared.record, "halvings": prepared.batch.halvings}
                for name, prepared in self._prepared.items()
            },
        }

    def for_worker(self) -> Preparation:
        """The same for another process, which prepares its copies of the models as these are."""
        self.settle()
        return Preparation(
            prepare=self.prepare,
            precision=self.precision,
            images=self.images,
            epsilon=self.epsilon,
            bounds=self.bounds,
            work=self.work,
            gradients=self.gradients,
            batch_size=self.batch_size,
            chosen={name: prepared.record for name, prepared in self._prepared.items()},
        )

    def _keep(self) -> None:
        """Write down what was chosen, where a run that goes on will look for it."""
        if self.path is None:
            return
        records = {name: self._prepared[name].record for name in self._choices if name in self._prepared}
        try:
            write_atomically(self.path, json.dumps(records, indent=2) + "\n")
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
            return {str(name): dict(record) for name, record in found.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    @property
    def half(self) -> bool:
        """Searches compute in bfloat16."""
        return self.precision == "fast"

    def of(self, facts: ModelFacts, kept: Mapping[str, Any] = EMPTY) -> Prepared:
        """Prepare a model.

        Args:
            facts: What the inspection found.
            kept: What was chosen for it before.
        """
        shown = self.images.to(device=facts.device, dtype=facts.dtype)
        together = self.batch_size or samples_at_once(shown[0])
        rows = min(rows_at_once(shown[0]), padded(together))
        record: dict[str, Any] = {"backend": "eager", "precision": "float32"}
        record |= {"batch-size": together, "rows-per-call": rows}
        reason = self._why_plain(facts)
        asked = self.half or self.prepare not in ("auto", "eager")
        if reason is not None and asked:
            record["note"] = reason
            self.notes.append(f"model '{facts.name}' is searched as it is, in float32: {reason}.")
        if reason is not None or not (asked or self.prepare == "auto"):
            oracle = Oracle(facts, rows)
            return Prepared(oracle, oracle, BatchSize(together), record)
        record["note"] = "not prepared: no search asked about a sample for long"

        def chosen() -> _Chosen:
            if facts.name not in self._choices:
                self._choices[facts.name] = self._choose(facts, shown, rows, record, kept)
                self._keep()
            return self._choices[facts.name]

        patience = PATIENCE if self.prepare == "auto" else 0
        search = Oracle(facts, rows, lambda: (chosen().forms, chosen().rows), patience)
        again = search
        if self.half:
            again = Oracle(facts, rows, lambda: (chosen().single, chosen().rows), patience)
        return Prepared(search, again, BatchSize(together), record)

    def _choose(
        self, facts: ModelFacts, shown: Tensor, rows: int, record: dict[str, Any], kept: Mapping[str, Any]
    ) -> _Chosen:
        """The forms of a model, measured, checked and noted in its record."""
        started = time.perf_counter()
        changed = None if self._visit is None else self._visit.put_back()
        if changed is not None:
            raise RuntimeError(f"the attack changed the model ({changed}), which was put back")
        del record["note"]
        forms = single = None
        heavy = self.prepare == "auto" and self._is_heavy(facts, shown)
        if kept.get("backend") == "eager" and kept.get("precision") == "float32":
            record |= {key: kept[key] for key in ("note", "passed-over") if key in kept}
        elif self.half or heavy or self.prepare != "auto":
            record["backend"], forms = self._chosen(facts, shown, record, heavy, kept.get("backend"))
            if self.half and forms is not None:
                single = self._in_single_precision(facts, shown)
        most = padded(record["batch-size"])
        if forms is not None and self.half:
            # Half the memory for each value.
            rows = min(2 * rows, most)
        rows = kept.get("rows-per-call") or rows
        if heavy and not kept and facts.device.type != "cpu":
            rows = self._rows(facts, forms, shown, most)
        record["rows-per-call"] = rows
        record["prepared-in"] = round(time.perf_counter() - started, 3)
        return _Chosen(forms, single, rows)

    def _in_single_precision(self, facts: ModelFacts, shown: Tensor) -> Forms | None:
        """The forms that near misses are searched again by."""
        made = self._made("channels-last", facts, shown, half=False)
        if isinstance(made, str) or self._problem(facts, made, shown, half=False) is not None:
            return None
        self._measure_error(facts, made, shown)
        return made

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

    def _is_heavy(self, facts: ModelFacts, shown: Tensor) -> bool:
        """Whether measuring pays in a run this large; counted, so that it is the same every time."""
        one = sum(m.probability * operations(m.module, shown[:8]) for m in facts.members)
        return self.work * one * (BACKWARD if self.gradients else 1) >= WORTH_PREPARING

    def _candidates(self, heavy: bool) -> list[FormName]:
        if self.prepare == "auto":
            # In this order: a later one must be clearly slower to be passed over.
            return ["channels-last", "folded", "eager"] if heavy else ["channels-last"]
        return [self.prepare]  # type: ignore[list-item]

    def _measure_error(self, facts: ModelFacts, forms: Forms, shown: Tensor) -> float:
        """Note by how much margins differ from the plain model's; gives the largest difference of a logit."""
        noisy = self._noisy(shown)
        for member in facts.members:
            error = probing.margin_error(member.module, forms.of(member.module, graph=True), noisy)
            forms.error = max(forms.error, error)
        return max(
            probing.logit_difference(m.module, forms.of(m.module, graph=graph), noisy)
            for m in facts.members
            for graph in (False, True)
        )

    def _chosen(
        self, facts: ModelFacts, shown: Tensor, record: dict[str, Any], heavy: bool, kept: str | None
    ) -> tuple[str, Forms | None]:
        candidates: list[Any] = [kept] if kept is not None else self._candidates(heavy)
        problems: dict[str, str] = {}
        built = {name: self._made(name, facts, shown, self.half) for name in candidates}
        times: dict[Any, float] = {}
        if len(candidates) > 1:
            times = {n: self._seconds(facts, f, shown) for n, f in built.items() if isinstance(f, Forms)}
            record["seconds-per-image"] = {name: float(f"{s:.3g}") for name, s in times.items()}
        order = self._preferred(candidates, times)
        expected = times.get(order[0], 0.0) * self.work
        if self.prepare == "auto" and expected > WORTH_COMPILING.get(facts.device.type, float("inf")):
            forms = built["inductor"] = self._made("inductor", facts, shown, self.half)
            if isinstance(forms, Forms) and self._seconds(facts, forms, shown) < CLEARLY * times[order[0]]:
                order.insert(0, "inductor")
        for name in order:
            forms = built[name]
            problem = forms if isinstance(forms, str) else self._problem(facts, forms, shown, self.half)
            if problem is None:
                break
            problems[name] = problem
        if problems:
            record["passed-over"] = problems
        if len(problems) == len(order):
            self.notes.append(
                f"model '{facts.name}' cannot be prepared ({'; '.join(problems.values())}); it is searched "
                "as it is, in float32."
            )
            return "eager", None
        if name == "eager" and not self.half:
            return "eager", None
        assert isinstance(forms, Forms)
        record["max-logit-difference"] = self._measure_error(facts, forms, shown)
        record["margin-error"] = forms.error
        record["precision"] = "bfloat16" if self.half else "float32"
        record["folded"] = sum(form.folded for form in forms.forms.values())
        return name, forms

    @staticmethod
    def _preferred(candidates: list[Any], times: Mapping[Any, float]) -> list[Any]:
        """The candidates as they are tried: one that is clearly slower than a later one comes after it."""
        order = list(candidates)
        for name in candidates[1:]:
            if name in times and times[name] < CLEARLY * times.get(order[0], float("inf")):
                order.remove(name)
                order.insert(0, name)
        return order

    def _made(self, name: FormName, facts: ModelFacts, shown: Tensor, half: bool) -> Forms | str:
        """All parts of a model in one form; or why that cannot be."""
        forms = Forms({}, compiled=name in ("inductor", "torchscript"))
        try:
            for member in facts.members:
                images = shown[:TIMED]
                for part in parts_of(member.module):
                    forms.forms[id(part)] = self._form(name, part, images, half)
                    images = probing.answered(part, images)
        except Exception as cause:
            return _told(cause)
        return forms

    @staticmethod
    def _problem(facts: ModelFacts, forms: Forms, shown: Tensor, half: bool) -> str | None:
        """Why the forms may not answer in the model's place, if they may not."""
        try:
            for member in facts.members:
                for graph in (False, True):
                    sizes = (
                        buckets(4 * QUANTUM)[::-1] if forms.compiled else [32, *sizes_that_tell(member.least)]
                    )
                    form = forms.of(member.module, graph=graph)
                    if probing.unsteady(form, shown[:TIMED], graph=graph, sizes=sizes):
                        return "a row's answer would depend on its batch"
                form = forms.of(member.module, graph=True)
                problem = probing.disagreement(member.module, form, shown[:TIMED], half)
                if problem is not None:
                    return problem
        except Exception as cause:
            return _told(cause)
        return None

    def _form(self, name: FormName, part: nn.Module, images: Tensor, half: bool) -> Form:
        """A part's form, built once however many models share the part."""
        key = id(part), name, half
        if key not in self._built:
            form = build(name, part, images, half, self._compilations)
            if half and name not in ("torchscript", "inductor"):
                form = self._forward_in_bfloat16(part, form, images)
            self._built[key] = form
            self._parts.append(part)
        return self._built[key]

    def _forward_in_bfloat16(self, part: nn.Module, form: Form, images: Tensor) -> Form:
        """The form, computing all in bfloat16 where nothing is differentiated, if that is clearly faster."""
        try:
            whole = Bfloat16(form.gradient.module)  # type: ignore[arg-type]
            allowed = 2 * probing.logit_difference(part, form.gradient, images)
            if probing.logit_difference(part, whole, images) > allowed:
                return form
            times = [probing.seconds_per_image(m, images, graph=False) for m in (whole, form.forward)]
        except Exception:
            # Such as a buffer of a type that does not mix: the mixed form is as good.
            return form
        return attrs.evolve(form, forward=whole) if times[0] < CLEARLY * times[1] else form

    def _seconds(self, facts: ModelFacts, forms: Forms, shown: Tensor) -> float:
        return sum(
            member.probability
            * probing.seconds_per_image(
                forms.of(member.module, graph=self.gradients), shown[:TIMED], graph=self.gradients
            )
            for member in facts.members
        )

    def _noisy(self, shown: Tensor) -> Tensor:
        """Clean images and, as many again, at random corners of the ball, where searches go."""
        some = shown[:COMPARED]
        generator = torch.Generator().manual_seed(0)
        signs = torch.randint(0, 2, some.shape, generator=generator).to(some) * 2 - 1
        return torch.cat([some, (some + self.epsilon * signs).clamp(*self.bounds)])

    def _rows(self, facts: ModelFacts, forms: Forms | None, shown: Tensor, most: int) -> int:
        """The rows of a call that are fastest: doubled as long as that helps, up to `most`."""
        member = facts.members[0]

        def seconds(rows: int) -> float:
            images = shown.repeat(-(-rows // len(shown)), 1, 1, 1)[:rows]
            form = member.module if forms is None else forms.of(member.module, self.gradients)
            return probing.seconds_per_image(form, images, graph=self.gradients, repeats=2)

        best = size = min(32, most)
        try:
            fastest = seconds(size)
            while size * 2 <= most:
                size *= 2
                found = seconds(size)
                if found > 0.97 * fastest:
                    break
                best, fastest = size, found
        except torch.OutOfMemoryError:
            pass
        return best


def _told(cause: Exception) -> str:
    """What a copy, a trace or a compiler raised; the model still runs as it is."""
    first = (str(cause).strip().splitlines() or [""])[0]
    return f"{type(cause).__name__}: {first}"
