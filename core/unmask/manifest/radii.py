"""Radii of the threat model, as a manifest or a call gives them."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any

from unmask.errors import MisuseError, UserError
from unmask.option_values import exact_float, shown

__all__ = ["parse_radii", "parse_radius"]

_EXAMPLE = 'such as ["8/255"]'


def parse_radii(values: Iterable[Any], where: str = "epsilons", norm: str = "linf") -> tuple[float, ...]:
    """Radii in ascending order.

    Args:
        values: Numbers, or text: decimals (``"0.03"``) and fractions (``"8/255"``), which are exact: the
            float nearest to the rational number, so that ``"8/255" == 8 / 255``.
        where: What error messages call the list.
        norm: The norm they are in; in l0 a radius is a whole number.

    Raises:
        MisuseError: Not a list, or a value that is neither number nor text.
        UserError: An empty list; a negative, infinite or undefined radius; text that is no number; a radius
            given twice; in l0, one that is no whole number.
    """
    if isinstance(values, (str, bytes, Real)) or not isinstance(values, Iterable):
        raise MisuseError(f"must be a list of radii, {_EXAMPLE}, not {shown(values)}.", where=where)
    if getattr(values, "ndim", 1) != 1:
        raise MisuseError(f"must be a flat list of radii, {_EXAMPLE}, not {shown(values)}.", where=where)
    found: dict[float, Any] = {}
    for i, value in enumerate(values):
        radius = parse_radius(value, f"{where}[{i}]")
        if norm == "l0" and not radius.is_integer():
            raise UserError(
                f"{shown(value)} is no whole number; in l0 a radius is the number of pixel values that may "
                "change, such as 10.",
                where=f"{where}[{i}]",
            )
        if radius in found:
            raise UserError(
                f"{shown(value)} is the radius {radius!r}, which {shown(found[radius])} already is; "
                "keep one of them.",
                where=f"{where}[{i}]",
            )
        found[radius] = value
    if not found:
        raise UserError(f"needs at least one radius, {_EXAMPLE}; the list is empty.", where=where)
    return tuple(sorted(found))


def parse_radius(value: Any, where: str = "epsilon") -> float:
    """One radius; see `parse_radii`."""
    radius = exact_float(value, where)
    if radius < 0:
        raise UserError(
            f'{shown(value)} is negative; a radius is a number of at least 0, such as 0.03 or "8/255".',
            where=where,
        )
    return radius + 0.0  # -0.0 becomes 0.0
