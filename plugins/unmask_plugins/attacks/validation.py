"""Checks of options that several attacks share; attrs validators."""

from __future__ import annotations

import math
from typing import Any

import attrs

__all__ = ["at_least", "between", "positive", "positive_or_none"]


def at_least(least: int) -> Any:
    """A whole number no smaller than `least`."""

    def check(_: Any, attribute: attrs.Attribute[int], value: int) -> None:
        if value < least:
            raise ValueError(f"{attribute.name} must be at least {least}, not {value}")

    return check


def positive(_: Any, attribute: attrs.Attribute[Any], value: float) -> None:
    """A positive finite number."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{attribute.name} must be positive, not {value}")


def positive_or_none(_: Any, attribute: attrs.Attribute[Any], value: float | None) -> None:
    """A positive finite number, or None."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise ValueError(f"{attribute.name} must be positive, not {value}")


def between(least: float, most: float) -> Any:
    """A number from `least` to `most`."""

    def check(_: Any, attribute: attrs.Attribute[float], value: float) -> None:
        if not least <= value <= most:
            raise ValueError(f"{attribute.name} must lie between {least:g} and {most:g}, not {value}")

    return check
