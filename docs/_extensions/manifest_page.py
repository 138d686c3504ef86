"""The page of the manifest's keys, made from its JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markdown import table

from unmask.manifest.schema import manifest_schema

__all__ = ["manifest_page"]

_PLURALS = {
    "data": "data",
    "recipe": "recipes",
    "front-end": "front-ends",
    "gradient": "gradients",
    "metric": "metrics",
    "attack": "attacks",
    "ensemble": "ensembles",
    "network": "models",
}
"""The page that describes the components of each kind of table."""


def manifest_page() -> str:
    """Every key of a manifest that does not belong to a component of its own."""
    schema = manifest_schema()
    definitions = schema["$defs"]
    parts = [
        "# Manifest\n",
        "A manifest is a TOML file. Unknown keys are refused with the nearest known one, and everything is "
        "checked before the first forward pass. `unmask schema -o manifest.schema.json` writes the schema"
        " that this page is made from, with the options of every installed component; editors complete and "
        "check by it.\n",
        "## The whole run\n",
        _keys(schema["properties"], schema["required"]),
        "## A data set: `[data]`\n",
        _component("data", definitions),
        "## A model: `[models.NAME]`\n",
        "One of three tables: a network, a backbone behind a front end, or an ensemble.\n",
        "### A network\n",
        _component("network", definitions),
        "### A backbone behind a front end\n",
        _closed(definitions["composite"]),
        "### An ensemble\n",
        _closed(definitions["mixture"]),
        "## A front end: `front-end`\n",
        _component("front-end", definitions),
        "## An ensemble: `ensemble`\n",
        _component("ensemble", definitions),
        "## A recipe: `[models.NAME.recipe]`\n",
        _component("recipe", definitions),
        "## An attack: `[attacks.NAME]`\n",
        _component("attack", definitions),
        "## A gradient source: `gradient`\n",
        _component("gradient", definitions),
        "## A metric\n",
        _component("metric", definitions),
    ]
    return "\n".join(parts)


def _component(name: str, definitions: Mapping[str, Any]) -> str:
    """The keys that all tables of a kind have; the component's own are on its page."""
    schema = definitions[name]
    alone = "anyOf" in schema
    full = schema["anyOf"][-1] if alone else schema
    text = f"`use` names one of the [{_PLURALS[name]}]({_PLURALS[name]}.md), whose options are further keys."
    if alone:
        text += f' The name alone may stand for the table, as in `{name} = "NAME"`.'
    own = {key: value for key, value in full["properties"].items() if key != "use"}
    required = [key for key in full["required"] if key != "use"]
    return f"{text}\n\n{_keys(own, required)}" if own else f"{text}\n"


def _closed(schema: Mapping[str, Any]) -> str:
    return _keys(schema["properties"], schema["required"])


def _keys(properties: Mapping[str, Any], required: list[str]) -> str:
    rows = []
    for key, value in properties.items():
        default = "required" if key in required else ""
        if "default" in value:
            default = f"`{_as_toml(value['default'])}`"
        rows.append((f"`{key}`", _in_words(value), default, value.get("description", "")))
    return table(("key", "takes", "default", "meaning"), rows)


def _as_toml(value: object) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f'"{value}"'
        if isinstance(value, str)
        else str(value)
    )


_WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}


def _in_words(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        named = {"part": "a model, or its name", "data": "a data set"}
        return named.get(name, f"{'an' if name[0] in 'aeiou' else 'a'} {name}")
    if "enum" in schema:
        return ", ".join(f'`"{value}"`' for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_in_words(part) for part in schema["anyOf"]))
    kind = schema.get("type", "")
    if kind == "array":
        return f"list of: {_in_words(schema['items'])}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"tables by name, each {_in_words(inner)}" if isinstance(inner, Mapping) else "table"
    return _WORDS[kind]
