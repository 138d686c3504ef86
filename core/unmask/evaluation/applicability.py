"""Which attacks make sense on which models, settled before the first query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from unmask.errors import UserError, suggestion
from unmask.evaluation.inspection import ModelFacts
from unmask.models.reference import ModelReference

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


def _why_not(attack: Any, facts: ModelFacts) -> str | None:
    for part in parts_of(attack):
        ask = getattr(part, "why_not", None)
        if callable(ask) and (reason := ask(facts)):
            return str(reason)
    return None


def check_applicability(
    attacks: Mapping[str, ConfiguredAttack], facts: Mapping[str, ModelFacts], norm: str
) -> dict[tuple[str, str], str]:
    """Why a (model, attack) pair is not run, for those that are not.

    A component says so by a method ``why_not(facts) -> str | None``.

    Raises:
        UserError: An attack is not defined for the norm, names a model that the run has not, or applies to
            none of the models.
    """
    left_out: dict[tuple[str, str], str] = {}
    for name, configured in attacks.items():
        where = f"attacks.{name}"
        if norm not in configured.entry.norms:
            raise UserError(
                f"'{configured.use}' is not defined for norm '{norm}'; it knows "
                f"{', '.join(configured.entry.norms)}. Choose another norm or leave the attack out.",
                where=where,
            )
        for reference in references_of(configured.attack):
            if reference.module is None and reference.name not in facts:
                raise UserError(
                    f"names the model '{reference.name}', which the run has not. "
                    + suggestion(reference.name, facts),
                    where=where,
                )
        reasons = {model: _why_not(configured.attack, known) for model, known in facts.items()}
        if all(reasons.values()):
            raise UserError(f"applies to no model of the run: {next(iter(reasons.values()))}.", where=where)
        left_out.update({(model, name): reason for model, reason in reasons.items() if reason})
    return left_out
