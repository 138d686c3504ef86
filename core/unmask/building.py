"""From a registered name and options to the component, or to a refusal in words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from torch import nn

from unmask.data import LabelledImages
from unmask.errors import MisuseError, PluginError, UserError
from unmask.evaluation.task import GradientSource
from unmask.models.surrogates import declare_surrogate
from unmask.option_values import Place, convert, shown
from unmask.options import build_with, check_options
from unmask.plugins.catalog import Provided, catalog, kind_named, singular
from unmask.weights import load_weights

__all__ = [
    "build_component",
    "builder_of",
    "find_component",
    "is_gradient_source",
    "split_use",
    "wrongly_built",
]


def build_component(
    kind: str,
    name: str,
    options: Mapping[str, Any],
    *,
    where: str,
    base: Path | None = None,
    hyphens: bool = True,
    arguments: tuple[Any, ...] = (),
) -> Any:
    """A component of any kind but attacks, by its registered name.

    Args:
        kind: Such as ``models`` or ``front-end``.
        name: The registered name, or ``distribution:name``.
        options: Its options, keys with hyphens or underscores. Models, front ends and ensembles also take
            ``weights``, a file that is loaded into what is built, and its ``sha256``.
        where: The key path, for messages.
        base: The folder that relative paths start from.
        hyphens: Messages spell options as in a manifest.
        arguments: Passed before the options: an ensemble's members.

    Raises:
        UserError: The name or an option is wrong.
        PluginError: The name is ambiguous, or its plugin is broken.
    """
    kind = kind_named(kind)
    provided = find_component(kind, name, where)
    build = builder_of(provided, where)
    skip = list(inspect.signature(build).parameters)[: len(arguments)]
    weights, sha256 = None, None
    if kind in ("models", "front-ends", "ensembles"):
        options, weights, sha256 = _weights_apart(build, options, where, base)
    values = check_options(build, options, where, base=base, skip=skip, hyphens=hyphens)
    built = build_with(build, values, where, arguments=arguments, hyphens=hyphens)
    fits, wanted = _WHAT_IS_BUILT[kind]
    if not fits(built):
        raise wrongly_built(provided, wanted, built, where)
    if kind in ("models", "front-ends"):
        declare_surrogate(built, provided.entry)
        built.eval()
    if weights is not None:
        try:
            load_weights(built, weights, sha256=sha256)
        except UserError as error:
            raise error.located(where=f"{where}.weights") from error
    return built.loaded() if isinstance(built, LabelledImages) else built


def _weights_apart(
    build: Callable[..., Any], options: Mapping[str, Any], where: str, base: Path | None
) -> tuple[dict[str, Any], Path | None, str | None]:
    """The options without ``weights`` and ``sha256`` where the builder has none of its own, and the two."""
    own = inspect.signature(build).parameters
    rest = dict(options)
    if "weights" in own:
        return rest, None, None
    given = rest.pop("weights", None)
    if given is None:
        return rest, None, None
    weights = convert(given, Path, Place(f"{where}.weights", base))
    sha256 = rest.pop("sha256", None)
    if sha256 is not None:
        sha256 = convert(sha256, str, Place(f"{where}.sha256", base))
    return rest, weights, sha256


def split_use(table: Mapping[str, Any], where: str, kind: str) -> tuple[str, dict[str, Any]]:
    """The name and the options in a table such as ``{ use = "pgd", steps = 5 }``.

    Raises:
        UserError: It lacks ``use``, or ``use`` is no text.
    """
    options = dict(table)
    if "use" not in options:
        raise UserError(f"needs 'use', the name of the {singular(kind_named(kind))}.", where=where or None)
    name = options.pop("use")
    if not isinstance(name, str):
        raise MisuseError(f"must be text, not {shown(name)}.", where=f"{where}.use" if where else "use")
    return name, options


def wrongly_built(provided: Provided, wanted: str, built: Any, where: str) -> PluginError:
    """The error of a plugin that builds something else than its kind of component."""
    return PluginError(
        f"'{provided.name}' of plugin {provided.provider} (version {provided.version}) must build {wanted}, "
        f"not {type(built).__name__}.",
        where=where or None,
    )


def find_component(kind: str, name: Any, where: str) -> Provided:
    """`Catalog.find` in the catalog in use, its errors placed at a key path."""
    if not isinstance(name, str):
        raise MisuseError(f"must be the name of a component, not {shown(name)}.", where=where or None)
    try:
        return catalog().find(kind, name)
    except UserError as error:
        raise error.located(where=where or None) from None


def builder_of(provided: Provided, where: str) -> Callable[..., Any]:
    """`Provided.builder`, its errors placed at a key path."""
    try:
        build: Callable[..., Any] = provided.builder()
    except UserError as error:
        raise error.located(where=where or None) from error
    return build


def is_gradient_source(thing: Any) -> TypeGuard[GradientSource]:
    """Whether it can be called as one; a class or a model cannot be meant."""
    return callable(thing) and not inspect.isclass(thing) and not isinstance(thing, nn.Module)


def _is_module(thing: Any) -> bool:
    return isinstance(thing, nn.Module)


_WHAT_IS_BUILT: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "models": (_is_module, "a torch.nn.Module"),
    "front-ends": (_is_module, "a torch.nn.Module"),
    "ensembles": (_is_module, "a torch.nn.Module"),
    "gradients": (is_gradient_source, "a function of task, x and loss"),
    "metrics": (callable, "a function"),
    "recipes": (callable, "a function of model and data"),
    "data": (lambda thing: isinstance(thing, LabelledImages), "unmask.data.LabelledImages"),
}
