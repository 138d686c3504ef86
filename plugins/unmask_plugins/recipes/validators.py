"""Checks of a recipe's options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import attrs

from unmask.errors import MisuseError, UserError, suggestion

__all__ = ["at_least_one", "fraction", "not_negative", "one_of", "positive", "weight"]


def _number(attribute: attrs.Attribute[Any], value: Any, kinds: tuple[type, ...], what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise MisuseError(f"{value!r} must be {what}.", where=attribute.name)


def one_of(choices: Any) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """A validator: one of the values of a `Literal`."""
    known = [str(choice) for choice in get_args(choices)]

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value not in known:
            raise UserError(f"{value!r} is unknown. {suggestion(str(value), known)}", where=attribute.name)

    return check


def at_least_one(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """A whole number from 1."""
    _number(attribute, value, (int,), "a whole number")
    if value < 1:
        raise UserError(f"{value} must be at least 1.", where=attribute.name)


def not_negative(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """A whole number from 0."""
    _number(attribute, value, (int,), "a whole number")
    if value < 0:
        raise UserError(f"{value} must not be negative.", where=attribute.name)


def positive(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """A finite number above 0."""
    _number(attribute, value, (int, float), "a number")
    if not 0 < value < float("inf"):
        raise UserError(f"{value} must be a positive number.", where=attribute.name)


def fraction(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """A number in [0, 1]."""
    _number(attribute, value, (int, float), "a number")
    if not 0 <= value <= 1:
        raise UserError(f"{value} must lie in [0, 1].", where=attribute.name)


def weight(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """A finite number from 0."""
    _number(attribute, value, (int, float), "a number")
    if not 0 <= value < float("inf"):
        raise UserError(f"{value} must not be negative.", where=attribute.name)
