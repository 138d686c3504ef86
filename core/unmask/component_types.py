"""Annotations that stand for a component: an option of that type takes a name, a table or the object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from unmask.building import build_component, is_gradient_source, split_use
from unmask.configured import ConfiguredAttack, as_configured
from unmask.data import DataReference, LabelledImages
from unmask.errors import MisuseError, UserError
from unmask.evaluation.task import GradientSource
from unmask.models.reference import ModelReference, ModelSelection
from unmask.option_types import ComponentType
from unmask.option_values import Place, shown
from unmask.provenance import object_path

__all__ = ["COMPONENT_TYPES"]


def _gradient_option(value: Any, place: Place) -> Any:
    if isinstance(value, str):
        value = {"use": value}
    if isinstance(value, Mapping):
        name, options = split_use(value, place.where, "gradients")
        return build_component(
            "gradients", name, options, where=place.where, base=place.base, hyphens=place.hyphens
        )
    if not is_gradient_source(value):
        raise MisuseError(
            "must be a gradient source: a name, a table with 'use', or unmask.gradient(...), "
            f"not {shown(value)}.",
            where=place.where,
        )
    return value


def _attack_option(value: Any, place: Place) -> ConfiguredAttack:
    return as_configured(value, place.where, base=place.base, hyphens=place.hyphens)


def _model_option(value: Any, place: Place) -> ModelReference:
    if isinstance(value, ModelReference):
        return value
    if isinstance(value, str):
        return ModelReference(name=value)
    if isinstance(value, nn.Module):
        return ModelReference(object_path(value), module=value)
    raise MisuseError(
        f"must be the name of a model of the run, or a torch.nn.Module, not {shown(value)}.",
        where=place.where,
    )


_RULES = ("all", "leave-one-out")


def _models_option(value: Any, place: Place) -> ModelSelection:
    if isinstance(value, ModelSelection):
        return value
    if isinstance(value, str) and value in _RULES:
        return ModelSelection(rule=value)
    if not isinstance(value, list | tuple):
        return ModelSelection((_model_option(value, place),))
    if not value:
        raise UserError("is empty; name at least one model.", where=place.where)
    return ModelSelection(tuple(_model_option(part, place.below(f"[{i}]")) for i, part in enumerate(value)))


def _data_option(value: Any, place: Place) -> DataReference:
    from unmask.manifest.data_section import fingerprint, subset
    from unmask.manifest.use import read_data

    if isinstance(value, DataReference):
        return value
    if isinstance(value, LabelledImages):
        data = value.loaded()
        return DataReference(data, {"given": data.name, "sha256": fingerprint(data)})
    if not isinstance(value, str | Mapping):
        raise MisuseError(
            "must be a data set: a name, a table with 'use', or unmask.data.LabelledImages, "
            f"not {shown(value)}.",
            where=place.where,
        )
    spec = read_data(value, place.where)
    data = build_component(
        "data", spec.use, spec.options, where=place.where, base=place.base, hyphens=place.hyphens
    )
    if spec.samples is not None:
        data = subset(data, spec.samples, 0, f"{place.where}.samples")
    return DataReference(data, {"use": value} if isinstance(value, str) else dict(value))


COMPONENT_TYPES: Mapping[Any, ComponentType] = {
    GradientSource: ComponentType("gradient source", _gradient_option),
    ConfiguredAttack: ComponentType("attack", _attack_option),
    DataReference: ComponentType("data set", _data_option),
    ModelReference: ComponentType("model of the run", _model_option),
    ModelSelection: ComponentType(
        "model of the run, list of models, 'all' or 'leave-one-out'", _models_option
    ),
}
"""Annotations that stand for a component."""
