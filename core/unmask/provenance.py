"""Components and their options as JSON, so that a result says what made it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import PurePath
from typing import Any

import attrs

from unmask.data import DataReference
from unmask.models.reference import ModelReference, ModelSelection
from unmask.options import describe_options
from unmask.plugins.catalog import catalog

__all__ = ["component_as_json", "object_path", "settings_of", "value_as_json"]


def object_path(thing: Any) -> str:
    """``package.module:name`` of a class or function, or of the class of an object."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}:{named.__qualname__}"


def component_as_json(kind: str, component: Any) -> dict[str, Any]:
    """A built component as the table that would build it: ``use`` and every option.

    What nobody registered has the path of its class as ``use``.
    """
    found = catalog().provided_of(kind, component)
    use = catalog().name_of(kind, component) or object_path(component)
    options: dict[str, Any] = {}
    if found is not None or attrs.has(type(component)):
        build = found.builder() if found is not None else type(component)
        options = settings_of(build, {}, component)
    return {"use": use, **options}


def settings_of(build: Any, given: Mapping[str, Any], built: Any) -> dict[str, Any]:
    """Every option with its value as JSON: as the object keeps it, else as given, else the default."""
    settings = {}
    kept = _fields(built) if attrs.has(type(built)) else {}
    for option in describe_options(build):
        name = option.parameter
        value = getattr(built, kept[name]) if name in kept else given.get(name, option.default)
        settings[name] = value_as_json(value)
    for name, value in given.items():  # what a builder that takes **options passes on
        if name not in settings:
            settings[name] = value_as_json(value)
    return settings


def _fields(thing: Any) -> dict[str, str]:
    """The names of an attrs object's attributes, by the names its constructor takes them under."""
    return {field.alias or field.name: field.name for field in attrs.fields(type(thing))}


def value_as_json(value: Any) -> Any:
    """An option's value as JSON: components by name, numbers that JSON lacks as text."""
    from unmask.configured import ConfiguredAttack

    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, ConfiguredAttack):
        return value.table()
    if isinstance(value, DataReference):
        return value_as_json(value.said)
    if isinstance(value, ModelReference):
        return value.name
    if isinstance(value, ModelSelection):
        return value.said
    if isinstance(value, Mapping):
        return {str(key): value_as_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple | range):
        return [value_as_json(part) for part in value]
    if isinstance(value, set | frozenset):
        return sorted((value_as_json(part) for part in value), key=str)
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, Fraction):
        return str(value)
    if hasattr(value, "tolist"):  # arrays and tensors, scalars included
        return value_as_json(value.tolist())
    if catalog().provided_of("gradients", value) is not None:
        return component_as_json("gradients", value)
    if attrs.has(type(value)):
        parts = {alias: value_as_json(getattr(value, name)) for alias, name in _fields(value).items()}
        return {"use": object_path(value), **parts}
    return object_path(value)
