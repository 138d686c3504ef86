"""What a parameter's annotation says an option takes."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

import attrs

if TYPE_CHECKING:
    from unmask.option_values import Place

__all__ = [
    "LISTS",
    "TABLES",
    "Anything",
    "ComponentType",
    "ExtendedFloat",
    "component_type",
    "hints_of",
    "in_words",
]


class Anything:
    """Stands for an annotation that is missing or cannot be resolved: the builder judges the value itself."""


@attrs.frozen
class _MayBeInfinite:
    """Marks a number that may be infinite."""


ExtendedFloat = Annotated[float, _MayBeInfinite()]
"""A number that may be infinite: annotate an option with it to accept ``inf``. NaN is never accepted."""

LISTS: dict[Any, Callable[[Any], Any]] = {
    list: list,
    tuple: tuple,
    collections.abc.Sequence: tuple,
    collections.abc.Iterable: tuple,
    collections.abc.Collection: tuple,
}
"""What a list becomes, by the type asked for."""

TABLES = (dict, collections.abc.Mapping, collections.abc.MutableMapping)

_WORDS: dict[Any, str] = {
    Anything: "anything",
    Any: "anything",
    object: "anything",
    None: "nothing",
    types.NoneType: "nothing",
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    ExtendedFloat: "number (inf allowed)",
    collections.abc.Callable: "function",
    **dict.fromkeys(LISTS, "list"),
    **dict.fromkeys(TABLES, "table"),
}


@attrs.frozen
class ComponentType:
    """An annotation that stands for a component: what it is called, and how a value becomes one."""

    words: str
    convert: Callable[[Any, Place], Any]


def _components() -> Mapping[Any, ComponentType]:
    from unmask.component_types import COMPONENT_TYPES

    return COMPONENT_TYPES


def component_type(annotation: Any) -> ComponentType | None:
    """The kind of component an annotation stands for, if it does."""
    try:
        return _components().get(annotation)
    except TypeError:  # an annotation that cannot be hashed
        return None


def in_words(annotation: Any) -> str:
    """What an option takes, such as ``whole number`` or ``list of numbers``."""
    if (component := component_type(annotation)) is not None:
        return component.words
    try:
        return _WORDS[annotation]
    except (KeyError, TypeError):
        pass
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return in_words(arguments[0])
    if origin is Literal:
        return "one of " + ", ".join(repr(value) for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(in_words(part) for part in arguments if part is not types.NoneType)
    if origin is tuple and arguments[-1] is not ...:
        return f"list of {len(arguments)} ({', '.join(in_words(part) for part in arguments)})"
    if origin in LISTS:
        return f"list of {_plural(in_words(arguments[0]))}"
    if origin is not None and origin in _WORDS:
        return _WORDS[origin]
    return str(getattr(annotation, "__name__", annotation))


def _plural(words: str) -> str:
    return f"{words}s" if words.split()[-1] in ("number", "path", "source", "attack") else f"({words})"


def hints_of(build: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a builder's parameters; what cannot be resolved is `Anything`."""
    hints: dict[str, Any] = {}
    if isinstance(build, type) and attrs.has(build):
        names = {field.name: field.alias or field.name for field in attrs.fields(build)}
        for base in reversed(build.__mro__[:-1]):
            for name, annotation in inspect.get_annotations(base).items():
                if name in names:
                    hints[names[name]] = _resolved(annotation, base)
        return hints
    function: Any = build
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    if isinstance(function, type):
        function = inspect.getattr_static(function, "__init__")
    elif not inspect.isroutine(function):
        function = type(function).__call__
    function = inspect.unwrap(function)
    for name, annotation in getattr(function, "__annotations__", {}).items():
        hints[name] = _resolved(annotation, function)
    return hints


def _resolved(annotation: Any, owner: Any) -> Any:
    """An annotation kept as text, evaluated where it was written.

    What a module imports for type checking only is not there at run time; the framework's own types, and
    the common ones of the standard library, are known here by their names all the same.
    """
    if not isinstance(annotation, str):
        return annotation
    module = inspect.getmodule(owner)
    names = _well_known() | (vars(module) if module else {}) | getattr(owner, "__globals__", {})
    try:
        return eval(annotation, names)  # a plugin's own source, as typing.get_type_hints does it
    except (NameError, TypeError, AttributeError, SyntaxError):
        return Anything


def _well_known() -> dict[str, Any]:
    found: dict[str, Any] = {"Path": Path, "ExtendedFloat": ExtendedFloat}
    found |= {name: getattr(typing, name) for name in ("Any", "Literal", "Optional", "Union", "Annotated")}
    found |= {
        name: getattr(collections.abc, name) for name in ("Sequence", "Iterable", "Mapping", "Callable")
    }
    return found | {annotation.__name__: annotation for annotation in _components()}
