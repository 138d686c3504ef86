"""The arguments of an evaluation, checked one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from unmask.components import ConfiguredAttack, as_configured
from unmask.dimensions import DIAGNOSE, is_diagnostic
from unmask.errors import MisuseError, UserError, suggestion

__all__ = ["check_attacks", "check_models", "one_of", "whole_number"]


def check_models(models: Any) -> dict[str, nn.Module]:
    """Models by name; a single one is called ``model``.

    Raises:
        UserError: None at all, a name that is no text, or something that is no `nn.Module`.
    """
    if isinstance(models, nn.Module):
        models = {"model": models}
    if not isinstance(models, Mapping):
        raise MisuseError(
            f"must be a mapping from names to models, not {type(models).__name__}.", where="models"
        )
    if not models:
        raise UserError("is empty; give at least one model.", where="models")
    for name, model in models.items():
        if not isinstance(name, str) or not name:
            raise MisuseError(f"the name {name!r} must be text.", where="models")
        if not isinstance(model, nn.Module):
            raise MisuseError(
                f"must be a torch.nn.Module from images to logits, not {type(model).__name__}.",
                where=f"models.{name}",
            )
    return dict(models)


def check_attacks(attacks: Any) -> dict[str, ConfiguredAttack]:
    """Attacks by name, with every option settled.

    Raises:
        UserError: None at all, a name that is no text, or something that is no attack.
    """
    if isinstance(attacks, (list, tuple)) and all(isinstance(a, str) for a in attacks):
        attacks = {name: name for name in attacks}
    if not isinstance(attacks, Mapping):
        raise MisuseError(
            f"must be a mapping from names to attacks, not {type(attacks).__name__}.", where="attacks"
        )
    if not attacks:
        raise UserError("is empty; give at least one attack, such as {'pgd': 'pgd'}.", where="attacks")
    found = {}
    for name, value in attacks.items():
        if not isinstance(name, str) or not name:
            raise MisuseError(f"the name {name!r} must be text.", where="attacks")
        if "/" in name and not is_diagnostic(name):
            raise UserError(
                f"the name '{name}' holds a '/', which stands between a suite and its stage; choose another.",
                where="attacks",
            )
        if name == DIAGNOSE or is_diagnostic(name):
            raise UserError(
                f"names that begin with '{DIAGNOSE}' are the run's own; give the attack another.",
                where=f"attacks.{name}",
            )
        try:
            found[name] = as_configured(value)
        except UserError as error:
            raise error.located(where=f"attacks.{name}") from error
    return found


def whole_number(value: Any, where: str, *, optional: bool = True, least: int = 1) -> None:
    """Refuse anything but a whole number of at least `least`, or None where `optional`."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise MisuseError(f"must be a whole number, not {value!r}.", where=where)
    if value < least:
        raise UserError(f"must be at least {least}, not {value}.", where=where)


def one_of(value: Any, known: Sequence[str], where: str) -> None:
    """Refuse a value that is not among the known ones, naming the nearest."""
    if value not in known:
        raise UserError(f"'{value}' is unknown. {suggestion(str(value), known)}", where=where)
