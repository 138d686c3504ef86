"""The manifest's JSON Schema (draft 2020-12), made from what is installed, for editors."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from unmask.errors import UserError
from unmask.manifest.spec import NORMS, PRECISIONS, PREPARATIONS, PROTOCOLS, QUANTIZERS
from unmask.option_types import LISTS, TABLES, ExtendedFloat, component_type
from unmask.options import Option, describe_options
from unmask.plugins.catalog import Provided, catalog

__all__ = ["manifest_schema"]

Schema = dict[str, Any]

_DIGITS = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"
_NOT_NEGATIVE = rf"^\s*\+?{_DIGITS}\s*(/\s*\+?{_DIGITS}\s*)?$"
_EITHER_SIGN = rf"^\s*[+-]?{_DIGITS}\s*(/\s*[+-]?{_DIGITS}\s*)?$"
_NUMBER: Schema = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": _EITHER_SIGN}]}
_RADIUS: Schema = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": _NOT_NEGATIVE}]}
_NOT_BLANK: Schema = {"type": "string", "pattern": r"\S"}
_COUNT: Schema = {"type": "integer", "minimum": 1}
_SECONDS: Schema = {"type": "number", "exclusiveMinimum": 0}
_SHA256: Schema = {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}
_WEIGHTS: Schema = {
    "weights": {**_NOT_BLANK, "description": "A weights file; relative to the manifest."},
    "sha256": {**_SHA256, "description": "What the weights file must hash to."},
}
_EXPECTED: Schema = {
    "expected-accuracy": {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "description": "Clean accuracy it must have; the run stops where its interval does not hold that.",
    }
}
_OWN_SEED: Schema = {
    "type": "integer",
    "minimum": 0,
    "default": 0,
    "description": "Another one gives other initial weights and other random numbers on the way.",
}
_HYPHENATED: Schema = {"pattern": "^[^_]*$"}


def manifest_schema() -> Schema:
    """The schema of every manifest that this installation understands, component options included."""
    recipe = {"recipe": {**_ref("recipe"), "description": "How it is trained where weights are missing."}}
    data = {
        "samples": {**_COUNT, "description": "Size of the seeded random subset; everything when left out."}
    }
    members: Schema = {
        "members": {"type": "array", "minItems": 1, "items": _ref("part")},
        "copies": {
            **_COUNT,
            "maximum": 1000,
            "description": "Copies of each member, each trained from its own seed.",
        },
    }
    limits = {
        "max-queries": {**_COUNT, "description": "Most forward passes per sample."},
        "timeout": {**_SECONDS, "description": "Most seconds per cell."},
    }
    aim = {
        "targeted": {"type": "boolean", "description": "Drive images towards a class, the target."},
        "target": {"type": "integer", "minimum": 0, "description": "The class to be reached."},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Unmask manifest",
        "description": "One evaluation of the adversarial robustness of image classifiers.",
        "type": "object",
        "properties": _top_level(limits),
        "required": ["epsilons", "data", "models", "attacks"],
        "additionalProperties": False,
        "$defs": {
            "data": _component("data", data),
            "recipe": _component("recipes", {"data": _ref("data"), "seed": _OWN_SEED}),
            "front-end": _component("front-ends", _WEIGHTS, together={"sha256": ["weights"]}),
            "gradient": _component("gradients", {}),
            "metric": _component("metrics", {}),
            "attack": _component("attacks", {**limits, **aim}, together={"target": ["targeted"]}),
            "ensemble": _component("ensembles", members, required=("members",), plain=False),
            "network": _component(
                "models", {**_WEIGHTS, **_EXPECTED, **recipe}, plain=False, excluded=("weights", "recipe")
            ),
            "composite": _closed(
                {"backbone": _ref("part"), "front-end": _ref("front-end"), **recipe, **_WEIGHTS, **_EXPECTED},
                required=("backbone", "front-end"),
                excluded=("weights", "recipe"),
            ),
            "mixture": _closed(
                {"ensemble": _ref("ensemble"), **recipe, **_WEIGHTS, **_EXPECTED},
                required=("ensemble",),
                excluded=("weights", "recipe"),
            ),
            "model": {"oneOf": [_ref("network"), _ref("composite"), _ref("mixture")]},
            "part": {
                "description": "The name of another model of the manifest, or a model of its own.",
                "anyOf": [{"type": "string"}, _ref("model")],
            },
        },
    }


def _top_level(limits: Schema) -> Schema:
    names: Schema = {"pattern": r"^\S(.*\S)?$"}
    return {
        "name": {
            "type": "string",
            "pattern": r"^(?![.\s])[^/\\\x00-\x1f\x7f]*[^/\\\x00-\x1f\x7f\s]$",
            "description": "What the run and its folder are called.",
        },
        "seed": {
            "type": "integer",
            "minimum": 0,
            "maximum": 2**63 - 1,
            "default": 0,
            "description": "Of every random stream; the same one gives the same models and outcomes.",
        },
        "norm": {
            "enum": list(NORMS),
            "default": "linf",
            "description": "How the size of a perturbation is measured.",
        },
        "epsilons": {
            "type": "array",
            "items": _RADIUS,
            "minItems": 1,
            "uniqueItems": True,
            "description": 'Radii in units of a pixel value; text fractions such as "8/255" are exact. '
            "In l0: how many pixel values may change, whole numbers.",
        },
        "metrics": {
            "type": "array",
            "items": _ref("metric") if catalog().entries("metrics") else False,
            "uniqueItems": True,
            "description": "Measurements beyond the core ones.",
        },
        "bounds": {
            "type": "array",
            "items": {"type": "number"},
            "minItems": 2,
            "maxItems": 2,
            "description": "Smallest and largest valid pixel value; the data set's own when left out.",
        },
        "batch-size": {**_COUNT, "description": "Samples in one call of a model."},
        "precision": {
            "enum": list(PRECISIONS),
            "default": PRECISIONS[0],
            "description": "What searches compute in; fast: in half precision, judged in float32.",
        },
        "protocol": {
            "enum": list(PROTOCOLS),
            "default": PROTOCOLS[0],
            "description": "How randomised models are scored: by their expected correctness, or by one draw.",
        },
        "prepare": {
            "enum": list(PREPARATIONS),
            "default": PREPARATIONS[0],
            "description": "The form in which models are searched; verdicts are always the model's own.",
        },
        "device": {
            "type": "string",
            "pattern": "^(cpu|cuda|mps|xpu)(:[0-9]{1,3})?$",
            "description": "Where to compute; the best there is when left out.",
        },
        "keep-examples": {
            "type": "boolean",
            "default": False,
            "description": "Store the adversarial images.",
        },
        "quantize": {
            "enum": list(QUANTIZERS),
            "description": "Also judge every final example rounded, inside the ball, to 8 bits a pixel.",
        },
        "diagnose": {
            "type": "boolean",
            "default": False,
            "description": "Add the cheap attacks that the verdict needs and that are missing.",
        },
        "trace": {
            "type": "boolean",
            "default": False,
            "description": "Run iterative gradient attacks once more; keep what their gradients are like.",
        },
        **limits,
        "data": {**_ref("data"), "description": "The images and their labels."},
        "models": {
            "description": "What is attacked.",
            "type": "object",
            "minProperties": 1,
            "propertyNames": names,
            "additionalProperties": _ref("model"),
        },
        "attacks": {
            "description": "Who attacks.",
            "type": "object",
            "minProperties": 1,
            "propertyNames": {**names, "not": {"pattern": "/"}},
            "additionalProperties": _ref("attack"),
        },
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _closed(properties: Schema, *, required: tuple[str, ...], excluded: tuple[str, ...] = ()) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
        "dependentRequired": {"sha256": ["weights"]},
    }
    return {**schema, "not": {"required": list(excluded)}} if excluded else schema


def _names(kind: str, provided: Provided) -> list[str]:
    """What a manifest may call a component."""
    name = catalog().spelt(kind, provided)
    return [name] if name == provided.qualified_name else [name, provided.qualified_name]


def _component(
    kind: str,
    extra: Schema,
    *,
    required: tuple[str, ...] = (),
    plain: bool = True,
    excluded: tuple[str, ...] = (),
    together: Mapping[str, list[str]] | None = None,
) -> Schema:
    """The schema of a component's table, each with the options of the component it names.

    Args:
        kind: Such as ``attacks``.
        extra: Keys that every table of the kind may have.
        required: Those of them it must have.
        plain: The name alone may stand for the table.
        excluded: Keys that exclude one another.
        together: Keys that need others.
    """
    adapted = [provided for offered in catalog().of_libraries(kind).values() for provided in offered]
    offered = [*catalog().entries(kind), *adapted]
    use: Schema = {"enum": [name for provided in offered for name in _names(kind, provided)]}
    table: Schema = {
        "type": "object",
        "properties": {"use": use, **extra},
        "required": ["use", *required],
        "propertyNames": _HYPHENATED,
        "allOf": [
            {
                "if": {"properties": {"use": {"enum": _names(kind, provided)}}, "required": ["use"]},
                "then": {"description": provided.entry.summary, **_options(provided, extra)},
            }
            for provided in offered
        ],
    }
    if excluded:
        table["not"] = {"required": list(excluded)}
    if together:
        table["dependentRequired"] = dict(together)
    return {"anyOf": [use, table]} if plain else table


def _options(provided: Provided, extra: Schema) -> Schema:
    """The keys one component takes; any, where its plugin cannot be asked.

    Other libraries are not imported to be asked: that takes seconds, and one may not be installed.
    """
    from unmask.models.data_facts import SUPPLIED

    if provided.entry.library is not None:
        return {}
    try:
        build = provided.builder()
        options = describe_options(build, skip=tuple(extra))
    except (UserError, ValueError, TypeError):
        return {}
    schema: Schema = {
        "properties": {"use": True, **dict.fromkeys(extra, True), **{o.name: _option(o) for o in options}},
        "required": [o.name for o in options if o.required and o.parameter not in SUPPLIED],
    }
    if not _passes_options_on(build):
        schema["additionalProperties"] = False
    return schema


def _passes_options_on(build: Any) -> bool:
    import inspect

    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(build).parameters.values())


def _option(option: Option) -> Schema:
    schema = dict(_type(option.annotation))
    if option.help:
        schema["description"] = option.help
    if isinstance(option.default, (bool, int, float, str)):
        schema["default"] = option.default
    return schema


def _type(annotation: Any) -> Schema:
    """What an annotated option takes in TOML; anything where JSON Schema cannot say it."""
    if component_type(annotation) is not None:
        from unmask.components import ConfiguredAttack, GradientSource, ModelSelection
        from unmask.data import DataReference

        name: Schema = {"type": "string"}
        names: Schema = {"anyOf": [name, {"type": "array", "items": name, "minItems": 1}]}
        known = {
            GradientSource: _ref("gradient"),
            ConfiguredAttack: _ref("attack"),
            DataReference: _ref("data"),
            ModelSelection: names,
        }
        return known.get(annotation, name)
    if annotation is float or annotation == ExtendedFloat:
        return _NUMBER
    simple = {bool: "boolean", int: "integer", str: "string", Path: "string"}
    if annotation in (bool, int, str, Path):
        return {"type": simple[annotation]}
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return {"enum": [value for value in arguments if value is not None]}
    if origin in (Union, types.UnionType):
        kinds = [_type(part) for part in arguments if part is not types.NoneType]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if (origin or annotation) in LISTS:
        items = arguments[0] if arguments and (origin is not tuple or arguments[-1] is ...) else Any
        return {"type": "array", "items": _type(items)}
    if (origin or annotation) in TABLES:
        return {"type": "object"}
    return {}
