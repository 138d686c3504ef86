"""Models and front ends of a manifest with their initial or given weights, before any training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
from torch import nn

from unmask.cache import canonical_json
from unmask.errors import PluginError, UserError
from unmask.evaluation.random import derive_seed
from unmask.manifest.location import resolved, working_from
from unmask.manifest.resolving import Resolved, resolve
from unmask.manifest.spec import FrontEndSpec, Manifest, NetworkSpec, WeightsSpec
from unmask.manifest.tables import below
from unmask.models.data_facts import SUPPLIED, DataFacts
from unmask.models.initialisation import seeded
from unmask.models.surrogates import declare_surrogate
from unmask.provenance import value_as_json
from unmask.weights import load_weights, sha256_of_file, sha256_of_state

__all__ = ["Made", "load_given", "make", "own_seed", "require_module"]


@attrs.frozen(eq=False)
class Made:
    """A module as its builder and the given weights leave it.

    Attributes:
        component: The entry and the options.
        module: In eval mode.
        description: Where it came from, as JSON.
        state: The sha256 of its weights.
    """

    component: Resolved
    module: nn.Module
    description: dict[str, Any]
    state: str

    @property
    def identity(self) -> str:
        """What its weights are known by."""
        return f"state {self.state}"

    @property
    def described(self) -> dict[str, Any]:
        """The description with the sha256 of the weights."""
        return {**self.description, "state-sha256": self.state}


def make(
    kind: str,
    spec: NetworkSpec | FrontEndSpec,
    where: str,
    *,
    manifest: Manifest,
    data: DataFacts,
    copy: int,
    start: int = 0,
) -> Made:
    """Build a model or front end, and load its weights where it names some.

    Its initial weights are drawn from a stream that the manifest's seed, the component and the copy fix.

    Args:
        kind: ``model`` or ``front-end``.
        spec: Its table.
        where: The table's key path.
        manifest: Gives the folder and the seed.
        data: Tells what the builder wants to know of the data.
        copy: Which copy of the component.
        start: The recipe's own seed.
    """
    component = resolve(
        kind,
        spec.use,
        spec.options,
        where,
        manifest.folder,
        supplied=SUPPLIED if spec.weights is None else (*SUPPLIED, "weights", "sha256"),
    )
    supplied = data.supplied_to(component)
    loads_itself = spec.weights is not None and component.accepts("weights")
    given: dict[str, Any] = {}
    loaded = None
    if spec.weights is not None and loads_itself:
        loaded = _checked(spec.weights, where, manifest)
        given["weights"] = str(_path(spec.weights, manifest))
        if component.accepts("sha256"):
            given["sha256"] = loaded["sha256"]
    purpose = canonical_json(value_as_json({"kind": kind, "use": spec.use, "options": spec.options}))
    with seeded(derive_seed("initial weights", manifest.seed, purpose, copy, *own_seed(start))):
        module = component.make(**supplied, **given)
    require_module(module, component)
    declare_surrogate(module, component.provided.entry)
    if spec.weights is not None and not loads_itself:
        loaded = load_given(module, spec.weights, where, manifest)
    description = component.described(**supplied)
    for name in ("weights", "sha256"):
        if name not in component.values:
            description["options"].pop(name, None)
    if loaded is not None:
        description["weights"] = loaded
    return Made(component, module.eval(), description, sha256_of_state(module.state_dict()))


def own_seed(start: int) -> tuple[int, ...]:
    """What a recipe's seed adds to the streams of its model; nothing for the seed of most, 0."""
    return (start,) if start else ()


def load_given(module: nn.Module, weights: WeightsSpec, where: str, manifest: Manifest) -> dict[str, str]:
    """Load the weights file of a table into a module; its path and sha256.

    Raises:
        UserError: The file is missing, is not the one that is meant, or does not fit.
    """
    try:
        found = load_weights(module, _path(weights, manifest), sha256=weights.sha256)
    except UserError as error:
        raise error.located(where=below(where, "weights")) from error
    return {"path": weights.path, "sha256": found}


def require_module(module: Any, component: Resolved) -> None:
    """Refuse what is no module.

    Raises:
        PluginError: A plugin built something else.
    """
    if not isinstance(module, nn.Module):
        raise PluginError(
            f"'{component.provided.name}' of {component.provided.provider} built {type(module).__name__}, "
            "not a torch.nn.Module.",
            where=component.where,
        )


def _checked(weights: WeightsSpec, where: str, manifest: Manifest) -> dict[str, str]:
    try:
        found = sha256_of_file(_path(weights, manifest))
    except UserError as error:
        raise error.located(where=below(where, "weights")) from error
    if weights.sha256 is not None and found != weights.sha256:
        raise UserError(
            f"'{weights.path}' has the sha256 {found}, not {weights.sha256}; nothing was loaded.",
            where=below(where, "sha256"),
        )
    return {"path": weights.path, "sha256": found}


def _path(weights: WeightsSpec, manifest: Manifest) -> Path:
    with working_from(manifest.folder):
        return resolved(weights.path)
