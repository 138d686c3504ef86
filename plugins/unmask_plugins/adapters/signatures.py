"""The options of a library's attack, read off its own signature and documentation."""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, Union

import attrs

from unmask_plugins.adapters.docstrings import documented_parameters

__all__ = ["LibraryOption", "options_of"]

_SIMPLE = (bool, int, float, str)
_COUNTS = re.compile(r"(^|_)(nb|num|max|iter|steps?|samples|evals|iterations|restarts|queries|size)(_|s?$)")
_NONE_AT_ALL = ("max_doubling", "max_halving", "proximal_steps", "search_iter")
"""Counts that are more than zero by default, and by which zero is a choice of sense."""

_TOLD = {
    "bool": bool,
    "boolean": bool,
    "int": int,
    "integer": int,
    "float": float,
    "str": str,
    "string": str,
}


@attrs.frozen
class LibraryOption:
    """One parameter of a library's attack that a manifest can set.

    Attributes:
        name: As the library calls it.
        annotation: Its type; what a manifest cannot write is left out of it.
        default: `inspect.Parameter.empty` where it must be given.
        text: What the library says of it.
    """

    name: str
    annotation: Any
    default: Any
    text: str

    @property
    def least(self) -> int | None:
        """The smallest value of a count; None for others. Libraries take less, and then do nothing."""
        if self.annotation is not int or type(self.default) is not int or self.default < 0:
            return None
        return 0 if self.default == 0 or self.name in _NONE_AT_ALL else 1


def options_of(
    build: Callable[..., Any],
    *,
    hidden: Collection[str],
    relative: Mapping[str, float],
    defaults: Mapping[str, Any],
) -> list[LibraryOption]:
    """The parameters of a library's class or function that are numbers, switches or text.

    Args:
        build: The class or function.
        hidden: Parameters that the adapter sets: the model, the norm, epsilon, the seed.
        relative: Parameters that are a multiple of epsilon unless given.
        defaults: Defaults that the library lacks.
    """
    told = {}
    for source in _documents(build):
        told.update(documented_parameters(source))
    found = []
    for parameter in inspect.signature(build).parameters.values():
        name = parameter.name
        if name in hidden or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        kind, text = told.get(name, ("", ""))
        default = defaults.get(name, parameter.default)
        annotation = _simple(name, parameter.annotation, default, kind, build)
        if name in relative:
            annotation, default = float | None, None
            text = re.sub(r"\s*\(default:[^)]*\)", "", text, flags=re.IGNORECASE).rstrip(". ")
            text = f"{text}. {relative[name]:.4g} times epsilon unless given.".lstrip(". ")
        if annotation is None:
            continue
        found.append(LibraryOption(name, annotation, default, text))
    return found


def _documents(build: Callable[..., Any]) -> list[str | None]:
    if not inspect.isclass(build):
        return [build.__doc__]
    own = [build.__dict__.get("__init__"), build]
    return [getattr(source, "__doc__", None) for source in own]


def _simple(name: str, annotation: Any, default: Any, told: str, owner: Any) -> Any:
    """The part of a type that a manifest can write; None where there is none."""
    if annotation is not inspect.Parameter.empty:
        kept = _kept(_evaluated(annotation, owner))
        if kept:
            if default is None and types.NoneType not in kept:
                kept.append(types.NoneType)
            if kept == [types.NoneType]:
                return None
            # A whole number is as good as any where a fraction is asked for.
            return Union[tuple(kept)]  # noqa: UP007 - made of parts
        if not isinstance(annotation, str):
            return None
    first = told.replace("optional", "").strip(" ,").split(" ")[0].split(",")[0].lower()
    kind = _TOLD.get(first)
    if type(default) is int and _COUNTS.search(name):
        kind = int  # whatever the documentation says
    if kind is None and isinstance(default, _SIMPLE):
        kind = type(default)
        if kind is int and not _COUNTS.search(name):
            kind = float  # such as a weight whose default is 0
    if kind is None:
        return None
    return Union[kind, None] if default is None else kind  # noqa: UP007


def _evaluated(annotation: Any, owner: Any) -> Any:
    if not isinstance(annotation, str):
        return annotation
    module = sys.modules.get(getattr(owner, "__module__", ""))
    try:
        return eval(annotation, dict(vars(module)) if module else {})  # the library's own source
    except (NameError, TypeError, AttributeError, SyntaxError):
        return None


def _kept(annotation: Any) -> list[Any]:
    """The simple members of a union, or the one type it is."""
    if annotation is None:
        return []
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return [kept for part in arguments for kept in _kept(part)]
    if origin is Literal and all(isinstance(value, _SIMPLE) for value in arguments):
        return [annotation]
    if annotation in (*_SIMPLE, types.NoneType):
        return [annotation]
    if origin in (tuple, list) and arguments and all(part in (*_SIMPLE, ...) for part in arguments):
        return [annotation]
    return []
