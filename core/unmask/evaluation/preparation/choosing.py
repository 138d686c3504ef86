"""Choosing the form in which a model is searched: by measuring, and by comparing it with the model itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import attrs
import torch
from torch import Tensor, nn

from unmask import crashes
from unmask.evaluation.batching import (
    QUANTUM,
    buckets,
    give_back_memory,
    is_out_of_memory,
    padded,
    sizes_that_tell,
)
from unmask.evaluation.inspection import ModelFacts
from unmask.evaluation.preparation import probing
from unmask.evaluation.preparation.forms import Bfloat16, Compilations, Form, FormName, Forms, build, parts_of
from unmask.evaluation.preparation.workload import operations

__all__ = ["COMPARED", "Choosing", "Chosen", "Purpose"]

WORTH_PREPARING = 2e12
"""Floating-point operations of a run from which `auto` prepares: ten seconds or so on one core."""

WORTH_COMPILING = {"cuda": 1200.0}
"""Seconds that a run takes at most from which `auto` tries Inductor, whose compilation takes a minute.

Not on the CPU: there it gains little over folded weights with channels innermost, and samples that fall early
make most runs far shorter.
"""

BACKWARD = 3
"""A forward and a backward pass cost about as much as this many forward passes."""

CLEARLY = 0.9
"""The share of another form's time below which a form counts as faster: noise must not choose."""

TIMED, COMPARED = 16, 32
"""Images that a form is timed with, and compared with the plain model on."""


@attrs.frozen(eq=False)
class Purpose:
    """What the models of a run are prepared for.

    Attributes:
        prepare: ``auto``, or the form to use.
        precision: ``fast`` computes in bfloat16.
        images: Clean images, a few, on the CPU.
        epsilon: The largest finite radius, for noise round them.
        bounds: The box.
        work: Passes that the attacks may spend on the samples of one model.
        gradients: An attack uses gradients.
    """

    prepare: str
    precision: str
    images: Tensor
    epsilon: float
    bounds: tuple[float, float]
    work: float
    gradients: bool

    @property
    def half(self) -> bool:
        """Searches compute in bfloat16."""
        return self.precision == "fast"


@attrs.frozen(eq=False)
class Chosen:
    """The forms of a model.

    Attributes:
        forms: Those that searches ask; None: the model itself.
        rows: The rows of a call.
    """

    forms: Forms | None
    rows: int


@attrs.define(eq=False)
class Choosing:
    """Makes forms of models, measures and checks them.

    A form answers in a model's place only where it was seen to give the same answers and gradients, every row
    on its own. Verdicts are never its business: they are the plain model's.

    Attributes:
        purpose: What the models are prepared for.
        notes: Sentences about models that could not be prepared.
        compilations: Counts.
    """

    purpose: Purpose
    notes: list[str]
    compilations: Compilations = attrs.field(factory=Compilations)
    _built: dict[tuple[int, FormName, bool], Form] = attrs.field(factory=dict)
    _parts: list[nn.Module] = attrs.field(factory=list)

    def choose(
        self, facts: ModelFacts, shown: Tensor, rows: int, record: dict[str, Any], kept: Mapping[str, Any]
    ) -> Chosen:
        """The forms of a model, measured, checked and noted in its record.

        Args:
            facts: What the inspection found.
            shown: Clean images, a few.
            rows: Of a call of the model as it is.
            record: Filled.
            kept: What was chosen before.
        """
        started = time.perf_counter()
        forms = None
        heavy = self.purpose.prepare == "auto" and self._is_heavy(facts, shown)
        if kept.get("backend") == "eager" and kept.get("precision") == "float32":
            record |= {key: kept[key] for key in ("note", "passed-over") if key in kept}
        elif self.purpose.half or heavy or self.purpose.prepare != "auto":
            doing = {"preparing": facts.name}
            try:
                with crashes.tried(doing):
                    record["backend"], forms = self._chosen(facts, shown, record, heavy, kept.get("backend"))
            except Exception as cause:
                if not isinstance(cause, crashes.CrashError) and not is_out_of_memory(cause):
                    raise
                forms, record["backend"] = None, self._as_it_is(facts, crashes.reason(cause))
                record["precision"] = "float32"
            if forms is None:
                give_back_memory()
        most = padded(record["batch-size"])
        if forms is not None and self.purpose.half:
            # Half the memory for each value.
            rows = min(2 * rows, most)
        rows = kept.get("rows-per-call") or rows
        if heavy and not kept and facts.device.type != "cpu":
            rows = self._rows(facts, forms, shown, most)
        record["rows-per-call"] = rows
        record["prepared-in"] = round(time.perf_counter() - started, 3)
        return Chosen(forms, rows)

    def single(self, facts: ModelFacts, shown: Tensor, *, alone: bool) -> Forms | None:
        """The forms in float32 of a model that is searched in half precision; None: the model itself.

        Args:
            facts: What the inspection found.
            shown: Clean images, a few.
            alone: They are asked about one row at a time, so that no other can change a row's answer.
        """
        try:
            with crashes.tried({"preparing in float32": facts.name}):
                made = self._made("channels-last", facts, shown, half=False)
                if isinstance(made, str):
                    return None
                if self._problem(facts, made, shown, half=False, alone=alone) is not None:
                    return None
                self._measure_error(facts, made, shown)
                return made
        except Exception as cause:
            if not isinstance(cause, crashes.CrashError) and not is_out_of_memory(cause):
                raise
        give_back_memory()
        return None

    def _is_heavy(self, facts: ModelFacts, shown: Tensor) -> bool:
        """Whether measuring pays in a run this large; counted, so that it is the same every time."""
        one = sum(m.probability * operations(m.module, shown[:8]) for m in facts.members)
        return self.purpose.work * one * (BACKWARD if self.purpose.gradients else 1) >= WORTH_PREPARING

    def _candidates(self, heavy: bool) -> list[FormName]:
        if self.purpose.prepare == "auto":
            # In this order: a later one must be clearly slower to be passed over.
            return (
                ["channels-last", "folded", "eager"] if heavy and not self.purpose.half else ["channels-last"]
            )
        return [self.purpose.prepare]  # type: ignore[list-item]

    def _measure_error(self, facts: ModelFacts, forms: Forms, shown: Tensor) -> float:
        """Note by how much margins differ from the plain model's; gives the largest difference of a logit."""
        largest = 0.0
        # In calls no larger than those that the inspection has made.
        for noisy in self._noisy(shown).split(COMPARED):
            for member in facts.members:
                plain = probing.answered(member.module, noisy)
                for graph in (False, True):
                    answer = probing.answered(forms.of(member.module, graph=graph), noisy)
                    largest = max(largest, float((answer - plain).abs().max()))
                    forms.error = max(forms.error, probing.margin_error(plain, answer))
        return largest

    def _chosen(
        self, facts: ModelFacts, shown: Tensor, record: dict[str, Any], heavy: bool, kept: str | None
    ) -> tuple[str, Forms | None]:
        half = self.purpose.half
        candidates: list[Any] = [kept] if kept is not None else self._candidates(heavy)
        problems: dict[str, str] = {}
        before = len(self._built), self.compilations.count
        built = {name: self._made(name, facts, shown, half) for name in candidates}
        times: dict[Any, float] = {}
        if len(candidates) > 1:
            times = {n: self._seconds(facts, f, shown) for n, f in built.items() if isinstance(f, Forms)}
            record["seconds-per-image"] = {name: float(f"{s:.3g}") for name, s in times.items()}
        order = self._preferred(candidates, times)
        expected = times.get(order[0], 0.0) * self.purpose.work
        if self.purpose.prepare == "auto" and expected > WORTH_COMPILING.get(facts.device.type, float("inf")):
            forms = built["inductor"] = self._made("inductor", facts, shown, half)
            if isinstance(forms, Forms) and self._seconds(facts, forms, shown) < CLEARLY * times[order[0]]:
                order.insert(0, "inductor")
        for name in order:
            forms = built[name]
            problem = forms if isinstance(forms, str) else self._problem(facts, forms, shown, half)
            if name == "inductor" and len(self._built) > before[0] and self.compilations.count == before[1]:
                problem = problem or "nothing of it was compiled"
            if problem is None:
                break
            problems[name] = problem
        if problems:
            record["passed-over"] = problems
        if len(problems) == len(order):
            return self._as_it_is(facts, "; ".join(problems.values())), None
        if name == "eager" and not half:
            return "eager", None
        assert isinstance(forms, Forms)
        record["max-logit-difference"] = self._measure_error(facts, forms, shown)
        record["margin-error"] = forms.error
        record["precision"] = "bfloat16" if half else "float32"
        record["folded"] = sum(form.folded for form in forms.forms.values())
        return name, forms

    def _as_it_is(self, facts: ModelFacts, why: str) -> str:
        """The form of a model that cannot be prepared; said once."""
        self.notes.append(
            f"model '{facts.name}' cannot be prepared ({why}); it is searched as it is, in float32."
        )
        return "eager"

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
    def _problem(
        facts: ModelFacts, forms: Forms, shown: Tensor, half: bool, alone: bool = False
    ) -> str | None:
        """Why the forms may not answer in the model's place, if they may not."""
        try:
            for member in facts.members:
                for graph in () if alone else (False, True):
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
            form = build(name, part, images, half, self.compilations)
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
        graph = self.purpose.gradients
        return sum(
            m.probability
            * probing.seconds_per_image(forms.of(m.module, graph=graph), shown[:TIMED], graph=graph)
            for m in facts.members
        )

    def _noisy(self, shown: Tensor) -> Tensor:
        """Clean images and, as many again, at random corners of the ball, where searches go."""
        some = shown[:COMPARED]
        generator = torch.Generator().manual_seed(0)
        signs = torch.randint(0, 2, some.shape, generator=generator).to(some) * 2 - 1
        return torch.cat([some, (some + self.purpose.epsilon * signs).clamp(*self.purpose.bounds)])

    def _rows(self, facts: ModelFacts, forms: Forms | None, shown: Tensor, most: int) -> int:
        """The rows of a call that are fastest: doubled as long as that helps, up to `most`."""
        member = facts.members[0]

        def seconds(rows: int) -> float:
            images = shown.repeat(-(-rows // len(shown)), 1, 1, 1)[:rows]
            form = member.module if forms is None else forms.of(member.module, self.purpose.gradients)
            return probing.seconds_per_image(form, images, graph=self.purpose.gradients, repeats=2)

        best = size = min(32, most)
        try:
            fastest = seconds(size)
            while size * 2 <= most:
                size *= 2
                found = seconds(size)
                if found > 0.97 * fastest:
                    break
                best, fastest = size, found
        except Exception as cause:
            if not is_out_of_memory(cause):
                raise
        give_back_memory()
        return best


_TOLD = 240
"""Characters of a reason."""


def _told(cause: Exception) -> str:
    """What a copy, a trace or a compiler raised; the model still runs as it is."""
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    # The first may end in a colon, and the cause come after it.
    told = " ".join(lines[:3])
    return f"{type(cause).__name__}: {told[:_TOLD]}{'...' if len(told) > _TOLD else ''}"
