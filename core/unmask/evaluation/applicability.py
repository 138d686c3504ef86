"""Which attacks make sense on which models, settled before the first query."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from unmask.errors import UserError, suggestion
from unmask.evaluation.inspection import ModelFacts
from unmask.evaluation.suite import is_suite, stages_of
from unmask.models.reference import ModelReference, ModelSelection

if TYPE_CHECKING:
    from unmask.components import ConfiguredAttack

__all__ = ["check_applicability", "parts_of", "references_of"]


def parts_of(component: Any) -> Iterator[Any]:
    """A component and everything it is made of: the values of attrs fields, and what lists hold."""
    yield component
    if isinstance(component, (list, tuple)):
        for item in component:
            yield from parts_of(item)
    elif isinstance(component, ModelReference):
        return
    elif attrs.has(type(component)):
        for field in attrs.fields(type(component)):
            yield from parts_of(getattr(component, field.name))


def references_of(attack: Any) -> list[ModelReference]:
    """The other models an attack names."""
    return [part for part in parts_of(attack) if isinstance(part, ModelReference)]


def _why_not(attack: Any, facts: ModelFacts, run: Collection[str]) -> str | None:
    for part in parts_of(attack):
        if isinstance(part, ModelSelection) and not part.keys(facts.name, list(run)):
            return "the run has no other model"
        ask = getattr(part, "why_not", None)
        if callable(ask) and (reason := ask(facts)):
            return str(reason)
    return None


def check_applicability(
    attacks: Mapping[str, ConfiguredAttack], facts: Mapping[str, ModelFacts], norm: str
) -> dict[tuple[str, str], str]:
    """Why a (model, attack) pair is not run, for those that are not.

    A component says so by a method ``why_not(facts) -> str | None``. The stages of a suite are judged one by
    one, under their names in the results; the suite is left out where all of them are.

    Raises:
        UserError: An attack is not defined for the norm, names a model that the run has not, or applies to
            none of the models.
    """
    left_out: dict[tuple[str, str], str] = {}
    for name, configured in attacks.items():
        where = f"attacks.{name}"
        if not is_suite(configured):
            left_out.update(_checked(name, where, configured, facts, norm))
            continue
        _check_norm(where, configured, norm)
        stages = stages_of(name, configured, norm)
        for stage, attack in stages.items():
            left_out.update(_checked(stage, where, attack, facts, norm))
        for model in facts:
            reasons = [left_out.get((model, stage)) for stage in stages]
            if all(reasons):
                left_out[model, name] = str(reasons[0])
    return left_out


def _checked(
    row: str, where: str, configured: ConfiguredAttack, facts: Mapping[str, ModelFacts], norm: str
) -> dict[tuple[str, str], str]:
    """The models that one attack, or one stage of a suite, is not run on."""
    _check_norm(where, configured, norm)
    for reference in references_of(configured.attack):
        if reference.module is None and reference.name not in facts:
            raise UserError(
                f"names the model '{reference.name}', which the run has not. "
                + suggestion(reference.name, facts),
                where=where,
            )
    reasons = {model: _why_not(configured.attack, known, facts) for model, known in facts.items()}
    if all(reasons.values()):
        what = f"'{row}' applies" if f"attacks.{row}" != where else "applies"
        raise UserError(f"{what} to no model of the run: {next(iter(reasons.values()))}.", where=where)
    return {(model, row): reason for model, reason in reasons.items() if reason}


def _check_norm(where: str, configured: ConfiguredAttack, norm: str) -> None:
    if norm not in configured.entry.norms:
        raise UserError(
            f"'{configured.use}' is not defined for norm '{norm}'; it knows "
            f"{', '.join(configured.entry.norms)}. Choose another norm or leave the attack out.",
            where=where,
        )
