"""From a value a user wrote to the value an option takes, or to a refusal in words."""

from __future__ import annotations

import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import attrs

from unmask.errors import MisuseError, UserError, nearest
from unmask.manifest.location import current_folder
from unmask.option_types import LISTS, TABLES, Anything, ExtendedFloat, component_type, in_words

__all__ = ["Place", "convert", "exact_float", "shown"]

_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?"
_FRACTION = re.compile(rf"\s*({_NUMBER})\s*(?:/\s*({_NUMBER})\s*)?", re.ASCII)
_INFINITE = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf}


@attrs.frozen
class Place:
    """Where a value stands.

    Attributes:
        where: Its key path.
        base: The folder that relative paths start from; None: `current_folder`, else the working directory.
        hyphens: Messages spell keys with hyphens, as in a manifest; otherwise as in Python.
    """

    where: str
    base: Path | None = None
    hyphens: bool = True

    def below(self, suffix: str) -> Place:
        """The place of a part of the value."""
        return attrs.evolve(self, where=self.where + suffix)


def shown(value: Any) -> str:
    """A value as messages show it, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def plain(value: Any) -> Any:
    """A scalar of NumPy or torch as the Python number it is; anything else unchanged."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    return value


def exact_float(value: Any, where: str | None = None) -> float:
    """A finite number, exactly as written: ``"8/255"`` is ``8 / 255``.

    Raises:
        UserError: Text that is no number or fraction, or a number that is not finite.
        MisuseError: Neither a number nor text.
    """
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int | float | Fraction | str):
        raise MisuseError(f"must be a number or a fraction such as '8/255', not {shown(value)}.", where=where)
    if isinstance(number, str):
        match = _FRACTION.fullmatch(number) if len(number) < 100 else None
        if match is None:
            raise UserError(f"{shown(value)} is not a number or a fraction such as '8/255'.", where=where)
        above, below = Fraction(match[1]), Fraction(match[2] or 1)
        if below == 0:
            raise UserError(f"{shown(value)} divides by zero.", where=where)
        number = above / below
    try:
        result = float(number)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise UserError(f"must be a finite number, not {shown(value)}.", where=where)
    return result


def convert(value: Any, annotation: Any, place: Place) -> Any:
    """The value an annotation asks for.

    Raises:
        UserError: The value cannot be one.
        MisuseError: It is of the wrong type.
    """
    if (component := component_type(annotation)) is not None:
        return component.convert(value, place)
    if annotation in (Anything, Any, object):
        return plain(value)
    if annotation == ExtendedFloat:
        number = plain(value)
        number = _INFINITE.get(number.strip().lower(), number) if isinstance(number, str) else number
        return number if number in (math.inf, -math.inf) else exact_float(number, place.where)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return convert(value, arguments[0], place)
    if origin is Literal:
        return _choice(value, arguments, place)
    if origin in (Union, types.UnionType):
        return _alternative(value, arguments, place)
    if (origin or annotation) in LISTS:
        return _list(value, origin or annotation, arguments, place)
    if (origin or annotation) in TABLES:
        return _table(value, arguments, place)
    return _single(value, origin or annotation, place)


def _required(value: Any, fits: bool, what: str, place: Place) -> Any:
    if not fits:
        raise MisuseError(f"must be {what}, not {shown(value)}.", where=place.where)
    return value


def _single(value: Any, wanted: Any, place: Place) -> Any:
    if wanted in _SINGLE:
        return _SINGLE[wanted](plain(value), place)
    if wanted is Callable:
        return _required(value, callable(value), "a function", place)
    if not inspect.isclass(wanted):
        return value
    try:
        fits = isinstance(value, wanted)
    except TypeError:  # a protocol that cannot be checked at run time
        fits = True
    return _required(value, fits, f"a {wanted.__name__}", place)


def _nothing(value: Any, place: Place) -> None:
    _required(value, value is None, "left out", place)


def _boolean(value: Any, place: Place) -> bool:
    return bool(_required(value, isinstance(value, bool), "true or false", place))


def _whole(value: Any, place: Place) -> int:
    if isinstance(value, float) and value.is_integer():
        raise MisuseError(f"must be a whole number: write {int(value)}, not {value}.", where=place.where)
    fits = isinstance(value, int) and not isinstance(value, bool)
    return int(_required(value, fits, "a whole number", place))


def _number(value: Any, place: Place) -> float:
    return exact_float(value, place.where)


def _text(value: Any, place: Place) -> str:
    return str(_required(value, isinstance(value, str), "text", place))


def _path(value: Any, place: Place) -> Path:
    path = Path(_required(value, isinstance(value, str | Path), "a path", place)).expanduser()
    return (place.base or current_folder() or Path.cwd()) / path


_SINGLE: dict[Any, Callable[[Any, Place], Any]] = {
    None: _nothing,
    types.NoneType: _nothing,
    bool: _boolean,
    int: _whole,
    float: _number,
    str: _text,
    Path: _path,
}


def _choice(value: Any, choices: Sequence[Any], place: Place) -> Any:
    given = plain(value)
    for choice in choices:
        if type(given) is type(choice) and given == choice:
            return choice
    close = nearest(given, [c for c in choices if isinstance(c, str)]) if isinstance(given, str) else None
    hint = f" Did you mean '{close}'?" if close else ""
    kind = UserError if type(given) in {type(choice) for choice in choices} else MisuseError
    raise kind(
        f"must be one of {', '.join(map(repr, choices))}, not {shown(value)}.{hint}", where=place.where
    )


def _alternative(value: Any, alternatives: Sequence[Any], place: Place) -> Any:
    # What the value already is comes before what it could be turned into; a choice before free text.
    def order(alternative: Any) -> int:
        if typing.get_origin(alternative) is Literal:
            return 0
        return 1 if alternative is type(plain(value)) else 2

    errors = []
    for alternative in sorted(alternatives, key=order):
        try:
            return convert(value, alternative, place)
        except UserError as error:
            if alternative is not types.NoneType:
                errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    # An alternative that got as far as a part of the value knows better what is wrong with it.
    for refusal in errors:
        if refusal.where != place.where:
            raise refusal
    words = in_words(Union[tuple(alternatives)])  # noqa: UP007 - made of parts
    kind = MisuseError if all(isinstance(refusal, MisuseError) for refusal in errors) else UserError
    raise kind(f"must be {words}, not {shown(value)}.", where=place.where)


def _list(value: Any, wanted: Any, arguments: tuple[Any, ...], place: Place) -> Any:
    if hasattr(value, "tolist") and getattr(value, "shape", ()) != ():
        value = value.tolist()
    _required(value, isinstance(value, list | tuple | range), "a list", place)
    if not arguments:
        kinds = [Anything] * len(value)
    elif wanted is tuple and arguments[-1] is not ...:
        if len(value) != len(arguments):
            raise UserError(
                f"must have {len(arguments)} values, not {len(value)}: {shown(value)}.", where=place.where
            )
        kinds = list(arguments)
    else:
        kinds = [arguments[0]] * len(value)
    parts = zip(value, kinds, strict=True)
    return LISTS[wanted](convert(part, kind, place.below(f"[{i}]")) for i, (part, kind) in enumerate(parts))


def _table(value: Any, arguments: tuple[Any, ...], place: Place) -> dict[Any, Any]:
    _required(value, isinstance(value, Mapping), "a table", place)
    keys, values = arguments or (Anything, Anything)
    return {
        convert(key, keys, place): convert(part, values, place.below(f".{key}"))
        for key, part in value.items()
    }
