"""A component in words: what its entry says, and its options as they are listed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from unmask.entries import LazyBuilder, Library
from unmask.options import describe_options
from unmask.plugins.catalog import Provided
from unmask.provenance import value_as_json

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["OptionInWords", "facts_of", "options_of"]


@attrs.frozen
class OptionInWords:
    """One option as a reader wants it.

    Attributes:
        name: As manifests write it.
        type: What it takes.
        default: As a manifest would say it; ``required`` where there is none.
        meaning: What it does.
    """

    name: str
    type: str
    default: str
    meaning: str


_OF_RECIPES = (
    OptionInWords(
        "data",
        "data set",
        "none",
        "What to train on; the training part of the manifest's data set unless given. Every recipe takes it.",
    ),
    OptionInWords(
        "seed",
        "whole number",
        "0",
        "Another one gives other initial weights and other random numbers on the way. Every recipe takes it.",
    ),
)

_OF_ATTACKS = (
    OptionInWords(
        "max-queries", "whole number", "none", "Most forward passes per sample; every attack takes it."
    ),
    OptionInWords("timeout", "number", "none", "Most seconds per cell; every attack takes it."),
)

_OF_TARGETED = (
    OptionInWords("targeted", "true or false", "false", "Drive images towards a class, the target."),
    OptionInWords("target", "whole number", "none", "The class to be reached."),
)


def options_of(kind: str, provided: Provided) -> list[OptionInWords]:
    """The options of a component, its own first, then those that its whole kind has.

    Args:
        kind: Such as ``attacks``.
        provided: The component; it is imported.

    Raises:
        UserError: It belongs to a library that is not installed.
        PluginError: It cannot be imported.
    """
    skip = ("members",) if kind == "ensembles" else ()
    rows = [
        OptionInWords(
            option.name,
            option.type,
            "required" if option.required else _default(option.default),
            option.help,
        )
        for option in describe_options(provided.builder(), skip=skip)
    ]
    if kind == "attacks":
        rows += _OF_ATTACKS
        if getattr(provided.entry, "targeted", False):
            rows += _OF_TARGETED
    if kind == "recipes":
        rows += _OF_RECIPES
    return rows


def facts_of(provided: Provided, leave_out: Collection[str] = ()) -> list[tuple[str, str]]:
    """The fields of an entry beyond its name and summary, as far as they say something.

    Args:
        provided: The component; it is not imported.
        leave_out: Fields that are not wanted.
    """
    without = {"name", "summary", "build", *leave_out}
    facts = [("provider", f"{provided.provider} (version {provided.version})")]
    for field in attrs.fields(type(provided.entry)):
        value = getattr(provided.entry, field.name)
        if field.name not in without and value not in (None, "", ()):
            facts.append((field.name, _fact(value)))
    return [fact for fact in facts if fact[0] not in without]


def _fact(value: Any) -> str:
    if isinstance(value, LazyBuilder):
        return value.path
    if isinstance(value, Library):
        return str(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else _default(value)


def _default(value: Any) -> str:
    plain = value_as_json(value)
    if isinstance(plain, dict) and set(plain) == {"use"}:
        plain = plain["use"]
    return plain if isinstance(plain, str) else _as_toml(plain)


def _as_toml(value: Any) -> str:
    """A value as a manifest would say it; a table with nothing but ``use`` as the name alone."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        if set(value) == {"use"}:
            return json.dumps(value["use"])
        pairs = (
            f"{key.replace('_', '-')} = {_as_toml(part)}" for key, part in value.items() if part is not None
        )
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_as_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
