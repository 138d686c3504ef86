"""The manifest's models: three forms, which may name one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unmask.errors import MisuseError, UserError, suggestion
from unmask.manifest.spec import (
    CompositeSpec,
    EnsembleSpec,
    FrontEndSpec,
    ModelReference,
    ModelSpec,
    NetworkSpec,
    RecipeSpec,
)
from unmask.manifest.tables import Table, below, finite, shown
from unmask.manifest.use import read_recipe, read_use, read_weights

__all__ = ["check_references", "parts", "read_model"]

_FORMS = (
    'use = "small-cnn"; or backbone = "..." and front-end = { use = "dncnn" }; '
    'or ensemble = { use = "randomized", members = ["..."] }'
)

EXPECTED = "expected-accuracy"
COMPOSITE_KEYS = ("backbone", "front-end", "recipe", "weights", "sha256", EXPECTED)
ENSEMBLE_KEYS = ("ensemble", "recipe", "weights", "sha256", EXPECTED)


def read_model(raw: Any, where: str) -> ModelSpec:
    """A model's table.

    Raises:
        UserError: It has none of the three forms, or mixes them, or one of its values is not understood.
    """
    if isinstance(raw, str):
        raise MisuseError(f"must be a table, not {shown(raw)}. A model is {_FORMS}.", where=where)
    table = Table(raw, where, '{ use = "small-cnn" }')
    forms = [
        form
        for form, keys in {
            "use": ("use",),
            "backbone and front-end": ("backbone", "front-end"),
            "ensemble": ("ensemble",),
        }.items()
        if any(key in table for key in keys)
    ]
    if len(forms) > 1:
        raise UserError(f"mixes {' with '.join(forms)}. A model is {_FORMS}.", where=where)
    if not forms:
        for key in table.raw:  # a slip of the pen is likelier than an empty model
            if key not in ("recipe", "weights", "sha256", EXPECTED):
                known = {"use", "ensemble", *COMPOSITE_KEYS}
                raise UserError(f"unknown key '{key}'. {suggestion(key, known)}", where=table.at(key))
        raise UserError(f"says no model. A model is {_FORMS}.", where=where)
    if forms == ["use"]:
        return _network(raw, where)
    return _ensemble(table) if forms == ["ensemble"] else _composite(table)


def _network(raw: Any, where: str) -> NetworkSpec:
    table, use = read_use(raw, where, 'use = "small-cnn"')
    taken = ["use", "recipe", EXPECTED]
    weights = None
    if "weights" in table:  # otherwise sha256 may be an option of the model itself
        weights = read_weights(table)
        taken += ["weights", "sha256"]
    return NetworkSpec(use, table.options(taken), weights, _recipe(table), _expected_accuracy(table))


def _composite(table: Table) -> CompositeSpec:
    table.allow(COMPOSITE_KEYS)
    for key in ("backbone", "front-end"):
        if key not in table:
            raise UserError(
                f"a model behind a front end needs '{key}' too. A model is {_FORMS}.", where=table.where
            )
    weights = read_weights(table)
    front_end = _front_end(table.raw["front-end"], table.at("front-end"))
    recipe = _recipe(table)
    if recipe is not None and front_end.weights is not None:
        raise UserError(
            "the front end has weights already; a recipe would train it again. Keep one of the two.",
            where=table.at("recipe"),
        )
    return CompositeSpec(
        _reference(table.raw["backbone"], table.at("backbone")),
        front_end,
        weights,
        recipe,
        _expected_accuracy(table),
    )


def _front_end(raw: Any, where: str) -> FrontEndSpec:
    table, use = read_use(raw, where, 'use = "dncnn"')
    if "recipe" in table:
        raise UserError(
            "a front end is trained before its backbone: write 'recipe' into the model's table, "
            "beside 'front-end'.",
            where=table.at("recipe"),
        )
    weights = read_weights(table)
    return FrontEndSpec(use, table.options(("use", "weights", "sha256")), weights)


def _ensemble(table: Table) -> EnsembleSpec:
    inside = "write it into the ensemble's table"
    table.allow(
        ENSEMBLE_KEYS,
        {
            "members": f"{inside}, ensemble = {{ use = ..., members = [...] }}.",
            "copies": f"{inside}, ensemble = {{ ..., copies = 3 }}.",
        },
    )
    inner, use = read_use(
        table.raw["ensemble"], table.at("ensemble"), 'use = "randomized", members = ["..."]'
    )
    members = inner.list("members", example='["backbone"]')
    if not members:
        raise UserError(
            "an ensemble needs at least one member; the list is empty.", where=inner.at("members")
        )
    return EnsembleSpec(
        use,
        tuple(_reference(member, f"{inner.at('members')}[{i}]") for i, member in enumerate(members)),
        inner.whole("copies", 1, least=1, most=1000),
        inner.options(("use", "members", "copies")),
        read_weights(table),
        _recipe(table),
        _expected_accuracy(table),
    )


def _expected_accuracy(table: Table) -> float | None:
    if EXPECTED not in table:
        return None
    value = finite(table.raw[EXPECTED], table.at(EXPECTED))
    if not 0 <= value <= 1:
        hint = f" Write {value / 100:g}." if 1 < value <= 100 else ""
        raise UserError(
            f"must be a fraction from 0 to 1, but is {shown(table.raw[EXPECTED])}.{hint}",
            where=table.at(EXPECTED),
        )
    return value


def _recipe(table: Table) -> RecipeSpec | None:
    if "recipe" not in table:
        return None
    if "weights" in table:
        raise UserError(
            "the model has weights already; a recipe would train it again. Keep one of the two.",
            where=table.at("recipe"),
        )
    return read_recipe(table.raw["recipe"], table.at("recipe"))


def _reference(raw: Any, where: str) -> ModelReference:
    if isinstance(raw, str):
        return raw
    if not isinstance(raw, Mapping):
        raise MisuseError(
            f"must be the name of a model of this manifest, or a model's table, not {shown(raw)}.",
            where=where,
        )
    return read_model(raw, where)


def parts(spec: ModelSpec, where: str) -> Iterator[tuple[str, ModelReference]]:
    """The models a model is made of, with their key paths."""
    if isinstance(spec, CompositeSpec):
        yield below(where, "backbone"), spec.backbone
    elif isinstance(spec, EnsembleSpec):
        for i, member in enumerate(spec.members):
            yield f"{where}.ensemble.members[{i}]", member


def check_references(models: Mapping[str, ModelSpec]) -> None:
    """Every named part is a model of the manifest, and none is made of itself.

    Raises:
        UserError: An unknown name, or a circle.
    """
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in done:
            return
        follow(models[name], below("models", name), (*path, name))
        done.add(name)

    def follow(spec: ModelSpec, where: str, path: tuple[str, ...]) -> None:
        for place, part in parts(spec, where):
            if not isinstance(part, str):
                follow(part, place, path)
            elif part not in models:
                raise UserError(
                    f"there is no model '{part}' in this manifest. {_nearest(part, models)}", where=place
                )
            elif part in path:
                circle = " -> ".join([*path[path.index(part) :], part])
                raise UserError(f"is a circle: {circle}. A model cannot be made of itself.", where=place)
            else:
                visit(part, path)

    for name in models:
        visit(name, ())


def _nearest(name: str, models: Mapping[str, ModelSpec]) -> str:
    return suggestion(name, models) + " A model of its own is written as a table, { use = ... }."
