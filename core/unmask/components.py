"""Building components by their registered names, in Python and for manifests alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from unmask.building import build_component, split_use
from unmask.configured import ConfiguredAttack, as_configured, configure_attack
from unmask.data import LabelledImages
from unmask.errors import MisuseError, UserError
from unmask.evaluation.task import GradientSource
from unmask.models.reference import ModelReference, ModelSelection
from unmask.option_values import shown

if TYPE_CHECKING:
    from unmask.training import Recipe

__all__ = [
    "ConfiguredAttack",
    "GradientSource",
    "ModelReference",
    "ModelSelection",
    "as_configured",
    "attack",
    "build_component",
    "configure_attack",
    "data",
    "ensemble",
    "front_end",
    "gradient",
    "metric",
    "model",
    "recipe",
    "split_use",
]


def attack(name: str, /, **options: Any) -> ConfiguredAttack:
    """An attack by its registered name, such as ``unmask.attack("pgd", steps=50)``."""
    return configure_attack(name, options, where=_call("attack", name), hyphens=False)


def model(name: str, /, **options: Any) -> nn.Module:
    """A classifier by its registered name: images in [0, 1], NCHW, to logits."""
    built: nn.Module = _build("model", name, options)
    return built


def front_end(name: str, /, **options: Any) -> nn.Module:
    """A front end by its registered name: image to image."""
    built: nn.Module = _build("front_end", name, options)
    return built


def ensemble(name: str, members: Iterable[nn.Module] | None = None, /, **options: Any) -> nn.Module:
    """A model made of `members`, which may also be given by keyword."""
    if members is not None and "members" in options:
        raise UserError("'members' is given twice.", where=_call("ensemble", name))
    given = options.pop("members", members)
    if given is None or isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise MisuseError(
            f"needs a list of models as members, not {shown(given)}.", where=_call("ensemble", name)
        )
    built: nn.Module = _build("ensemble", name, options, (list(given),))
    return built


def gradient(name: str, /, **options: Any) -> GradientSource:
    """A gradient source by its registered name, for the option ``gradient`` of an attack."""
    built: GradientSource = _build("gradient", name, options)
    return built


def metric(name: str, /, **options: Any) -> Callable[..., Any]:
    """A measurement by its registered name."""
    built: Callable[..., Any] = _build("metric", name, options)
    return built


def data(name: str, /, **options: Any) -> LabelledImages:
    """Images and labels by their registered name."""
    built: LabelledImages = _build("data", name, options)
    return built


def recipe(name: str, /, **options: Any) -> Recipe:
    """A training recipe by its registered name."""
    built: Recipe = _build("recipe", name, options)
    return built


def _call(kind: str, name: Any) -> str:
    return f"{kind}({name!r})"


def _build(kind: str, name: str, options: Mapping[str, Any], arguments: tuple[Any, ...] = ()) -> Any:
    return build_component(kind, name, options, where=_call(kind, name), hyphens=False, arguments=arguments)
