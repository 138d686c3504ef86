"""From a manifest to its models: built, loaded or trained, each with a description of where it came from."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import attrs
import torch
from torch import nn

from unmask.cache import Cache, canonical_json, key_of
from unmask.crashes import surviving
from unmask.entries import FrontEndEntry, ModelEntry
from unmask.errors import UserError
from unmask.evaluation.expectation import Expectation
from unmask.evaluation.random import derive_seed
from unmask.manifest.placing import placed_in
from unmask.manifest.resolving import Resolved, resolve
from unmask.manifest.spec import (
    CompositeSpec,
    EnsembleSpec,
    FrontEndSpec,
    Manifest,
    ModelReference,
    ModelSpec,
    NetworkSpec,
    RecipeSpec,
)
from unmask.manifest.tables import below
from unmask.manifest.use import read_recipe
from unmask.models.data_facts import DataFacts
from unmask.models.defended import Defended
from unmask.models.initialisation import seeded
from unmask.models.making import Made, load_given, make, require_module
from unmask.models.trained import Training, TrainingView
from unmask.provenance import value_as_json
from unmask.weights import sha256_of_state

__all__ = ["BuiltModels", "build_models"]


@attrs.frozen(eq=False)
class BuiltModels:
    """A manifest's models.

    Attributes:
        models: By name, in eval mode.
        descriptions: By name, as JSON: components with all options, hashes of weights, recipes.
        trained: What was trained now: what it is, and the file it is kept in.
        untrained: What still has to be trained; empty unless that was asked for.
        expectations: Clean accuracies that models or their parts must have.
    """

    models: dict[str, nn.Module]
    descriptions: dict[str, dict[str, Any]]
    trained: dict[str, str]
    untrained: tuple[str, ...]
    expectations: tuple[Expectation, ...] = ()


def build_models(
    manifest: Manifest,
    *,
    device: torch.device | str = "cpu",
    view: TrainingView | None = None,
    train: bool = True,
    leave_untrained: bool = False,
) -> BuiltModels:
    """Build every model of a manifest.

    Weights that a recipe must train come from the cache, else they are trained now and kept there.
    Initialisations are repeatable: the same manifest gives the same models. The global random states stay
    as they are.

    Args:
        manifest: A manifest that `check_manifest` accepts.
        device: Where the models go.
        view: Told how training goes; says how often checkpoints are written.
        train: Train what is missing; otherwise missing weights are an error that lists them.
        leave_untrained: Without `train`: build what is missing untrained, and list it in the result.

    Raises:
        UserError: A component refuses its options, weights are missing or do not fit, or nothing is there to
            train on.
        PluginError: A component builds something else than it should.
    """
    builder = _Builder(manifest, torch.device(device), view or TrainingView(), train)
    with placed_in(manifest.file):
        built = {}
        for name in manifest.models:
            with surviving(f"model '{name}' was made", f"models.{name}", theirs=True):
                built[name] = builder.named(name, 0)
    if builder.untrained and not leave_untrained:
        raise UserError(
            f"no trained weights for: {', '.join(builder.untrained)}. "
            "Run `unmask train` with this manifest first, or name files under `weights`.",
            where="models",
            file=manifest.file,
        )
    return BuiltModels(
        models={name: part.module.to(device).eval() for name, part in built.items()},
        descriptions={name: part.description for name, part in built.items()},
        trained=builder.trained,
        untrained=tuple(builder.untrained),
        expectations=tuple(builder.expectations.values()),
    )


@attrs.frozen(eq=False)
class _Built:
    """A module, what its weights are known by, and where they came from."""

    module: nn.Module
    identity: str
    description: dict[str, Any]


class _Builder:
    """Builds each model, and each copy of it, once."""

    def __init__(self, manifest: Manifest, device: torch.device, view: TrainingView, train: bool) -> None:
        self.manifest = manifest
        self.device = device
        self.view = view
        self.train = train
        self.data = DataFacts(manifest)
        self.cache = Cache()
        self.trained: dict[str, str] = {}
        self.untrained: list[str] = []
        self.expectations: dict[tuple[str, int], Expectation] = {}
        self._done: dict[tuple[str, int], _Built] = {}

    def named(self, name: str, copy: int, weightless: bool = False) -> _Built:
        """A model of the manifest; copy 0 is the very model."""
        return self.model(self.manifest.models[name], below("models", name), name, copy, weightless)

    def model(self, spec: ModelSpec, where: str, name: str, copy: int, weightless: bool) -> _Built:
        """A copy of a model.

        Args:
            spec: Its table.
            where: The table's key path.
            name: What messages call it.
            copy: Which copy.
            weightless: Leave it untrained and share it with nobody: its weights will be overwritten.
        """
        bare = attrs.evolve(spec, expected_accuracy=None)
        key = (type(spec).__name__ + canonical_json(value_as_json(attrs.asdict(bare))), copy)
        called = name if copy == 0 else f"{name} (copy {copy})"
        if weightless or key not in self._done:
            built = self._model(spec, where, called, copy, weightless)
            if weightless:
                return built
            self._done[key] = built
        if spec.expected_accuracy is not None:
            place = below(where, "expected-accuracy")
            self.expectations[place, copy] = Expectation(
                called, place, self._done[key].module, spec.expected_accuracy
            )
        return self._done[key]

    def _model(self, spec: ModelSpec, where: str, name: str, copy: int, weightless: bool) -> _Built:
        if isinstance(spec, NetworkSpec):
            return self._network(spec, where, name, copy, weightless)
        weightless = weightless or spec.weights is not None
        if isinstance(spec, CompositeSpec):
            built = self._composite(spec, where, name, copy, weightless)
        else:
            built = self._ensemble(spec, where, name, copy, weightless)
        if spec.weights is None:
            return built
        loaded = load_given(built.module, spec.weights, where, self.manifest)
        return _Built(built.module, f"weights {loaded['sha256']}", {**built.description, "weights": loaded})

    def _part(self, part: ModelReference, where: str, name: str, copy: int, weightless: bool) -> _Built:
        if isinstance(part, str):
            return self.named(part, copy, weightless)
        return self.model(part, where, name, copy, weightless)

    def _network(self, spec: NetworkSpec, where: str, name: str, copy: int, weightless: bool) -> _Built:
        made = self._make("model", spec, where, copy, spec.recipe)
        recipe = spec.recipe or (None if spec.brings_weights else _default_recipe(made, where))
        if recipe is None or weightless:
            return _Built(made.module, made.identity, made.described)
        return self._train(name, recipe, where, made, made.module, None, copy)

    def _composite(self, spec: CompositeSpec, where: str, name: str, copy: int, weightless: bool) -> _Built:
        backbone = self._part(spec.backbone, below(where, "backbone"), f"{name}, backbone", copy, weightless)
        made = self._make("front-end", spec.front_end, below(where, "front-end"), copy, spec.recipe)
        whole = Defended(made.module, backbone.module).eval()
        front_end = _Built(made.module, made.identity, made.described)
        recipe = None if spec.front_end.weights else spec.recipe or _default_recipe(made, where)
        if recipe is not None and not weightless:
            front_end = self._train(name, recipe, where, made, whole, backbone.identity, copy)
        return _Built(
            whole,
            key_of({"front-end": front_end.identity, "backbone": backbone.identity}),
            {"front-end": front_end.description, "backbone": backbone.description},
        )

    def _ensemble(self, spec: EnsembleSpec, where: str, name: str, copy: int, weightless: bool) -> _Built:
        place = below(where, "ensemble")
        together = spec.recipe is not None and not weightless
        members = []
        for i, part in enumerate(spec.members):
            spot = f"{place}.members[{i}]"
            fresh = weightless or (together and _says_no_weights(part))
            copies = [
                self._part(part, spot, f"{name}, member {i + 1}", copy * spec.copies + k, fresh)
                for k in range(spec.copies)
            ]
            if len({c.identity for c in copies}) < len(copies) and not weightless:
                raise UserError(
                    f"the {spec.copies} copies of member {i + 1} are one and the same model: nothing "
                    "about it is drawn or trained. Leave `copies` out, or name different members.",
                    where=below(place, "copies"),
                )
            members += copies
        component = resolve(
            "ensemble", spec.use, spec.options, place, self.manifest.folder, supplied=("members",)
        )
        with seeded(derive_seed("ensemble", self.manifest.seed, copy)):
            modules = [member.module for member in members]
            # Those that are trained here must not be the models of the run they start from.
            module = component.make(members=deepcopy(modules) if together else modules)
        require_module(module, component)
        description = component.described()
        description["options"].pop("members", None)
        if spec.recipe is not None and not weightless:
            return self._train_together(spec.recipe, where, name, copy, component, module, members)
        return _Built(
            module.eval(),
            key_of({"ensemble": description, "members": [member.identity for member in members]}),
            {"ensemble": description, "members": [member.description for member in members]},
        )

    def _train_together(
        self,
        recipe: RecipeSpec,
        where: str,
        name: str,
        copy: int,
        component: Resolved,
        module: nn.Module,
        members: list[_Built],
    ) -> _Built:
        """An ensemble whose members are trained by one recipe, from what they are now."""
        if len({member.identity for member in members}) < len(members):
            raise UserError(
                "members that are one and the same model would be trained to stay so. Write one of them and "
                "`copies`, or give each a recipe with a `seed` of its own.",
                where=below(where, "ensemble.members"),
            )
        description = component.described()
        description["options"].pop("members", None)
        described = {"ensemble": description, "members": [member.description for member in members]}
        state = sha256_of_state(module.state_dict())
        return self._train(
            name, recipe, where, Made(component, module.eval(), described, state), module, None, copy
        )

    def _source(self, name: str) -> tuple[nn.Module, str]:
        """A model that a recipe learns from, and what its weights are known by."""
        built = self.named(name, 0)
        return built.module, built.identity

    def _make(
        self, kind: str, spec: NetworkSpec | FrontEndSpec, where: str, copy: int, recipe: RecipeSpec | None
    ) -> Made:
        start = 0 if recipe is None else recipe.seed
        return make(kind, spec, where, manifest=self.manifest, data=self.data, copy=copy, start=start)

    def _train(
        self,
        name: str,
        recipe: RecipeSpec,
        where: str,
        made: Made,
        whole: nn.Module,
        backbone: str | None,
        copy: int,
    ) -> _Built:
        """What was made, with trained weights: kept ones, or those trained now."""
        training = Training.planned(
            name,
            recipe,
            below(where, "recipe"),
            manifest=self.manifest,
            data=self.data,
            made=made,
            whole=whole,
            backbone=backbone,
            copy=copy,
            named=self._source,
        )
        known = training.restore(self.cache)
        if not known and self.train:
            if training.run(whole, self.cache, self.device, self.view):
                self.trained[name] = str(self.cache.path(training.key))
        elif not known:
            self.untrained.append(name)
        description = {**made.description, "trained": training.described}
        if known or self.train:
            description["state-sha256"] = sha256_of_state(made.module.state_dict())
        return _Built(made.module if backbone is None else whole, f"trained {training.key}", description)


def _says_no_weights(part: ModelReference) -> bool:
    """A table that names neither weights nor a recipe: trained with others, it starts from scratch."""
    return isinstance(part, NetworkSpec) and not part.brings_weights and part.recipe is None


def _default_recipe(made: Made, where: str) -> RecipeSpec | None:
    entry = made.component.provided.entry
    assert isinstance(entry, ModelEntry | FrontEndEntry)
    if entry.recipe is None:
        return None
    table = {key.replace("_", "-"): value for key, value in entry.recipe.items()}
    return read_recipe(table, below(where, "recipe"))
