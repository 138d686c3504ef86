"""Everything that can be said of a manifest before anything of it is built or attacked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from unmask.crashes import surviving
from unmask.errors import UserError, suggestion
from unmask.manifest.location import resolved, working_from
from unmask.manifest.models_section import parts
from unmask.manifest.placing import placed_in
from unmask.manifest.resolving import Resolved, resolve
from unmask.manifest.spec import (
    AttackSpec,
    CompositeSpec,
    DataSpec,
    EnsembleSpec,
    FrontEndSpec,
    Manifest,
    ModelSpec,
    NetworkSpec,
    RecipeSpec,
    WeightsSpec,
)
from unmask.manifest.tables import below
from unmask.manifest.use import read_recipe

if TYPE_CHECKING:
    from unmask.components import ConfiguredAttack

__all__ = ["build_attacks", "check_manifest"]


def check_manifest(manifest: Manifest) -> None:
    """Validate a whole manifest without building models or data.

    Every component is known and has the options it needs, of the right types; every attack knows the norm,
    can be targeted if that is asked for, and applies to some model; every file that is named exists.

    Raises:
        UserError: Something is not so; the message has the file, the key path and the way out.
        PluginError: A component is offered twice, or by a plugin that does not work; or there are no tensor
            kernels.
    """
    from unmask.plugins.catalog import catalog

    with placed_in(manifest.file):
        _check_data(manifest.data, "data", manifest)
        for name, spec in manifest.models.items():
            _check_model(spec, below("models", name), manifest)
        _refuse_circles(manifest)
        for name, attack in build_attacks(manifest).items():
            _check_fitness(attack, below("attacks", name), manifest)
        for i, metric in enumerate(manifest.metrics):
            _check_metric(metric, f"metrics[{i}]", manifest)
    catalog().kernels()


def build_attacks(manifest: Manifest) -> dict[str, ConfiguredAttack]:
    """The manifest's attacks by name, with every option settled.

    Raises:
        UserError: An unknown attack or option, a wrong value, a norm that an attack does not know, or a
            target for one that cannot be targeted.
    """
    with placed_in(manifest.file):
        made = {}
        for name, spec in manifest.attacks.items():
            with surviving(f"attack '{name}' was made", below("attacks", name), theirs=True):
                made[name] = _attack(spec, below("attacks", name), manifest)
        return made


def _attack(spec: AttackSpec, where: str, manifest: Manifest) -> ConfiguredAttack:
    from unmask.building import find_component
    from unmask.components import configure_attack
    from unmask.entries import AttackEntry

    entry = find_component("attacks", spec.use, below(where, "use")).entry
    assert isinstance(entry, AttackEntry)
    if manifest.norm not in entry.norms:
        raise UserError(
            f"the attack '{spec.use}' does not know the norm '{manifest.norm}'; it knows "
            f"{', '.join(entry.norms)}. Choose another norm, or leave the attack out.",
            where=where,
        )
    if not entry.targeted:
        for key in ("target", "targeted"):
            if spec.options.get(key, False) is not False:
                raise UserError(
                    f"the attack '{spec.use}' cannot be targeted. Leave '{key}' out, or choose an attack "
                    "that can: `unmask list attacks`.",
                    where=below(where, key),
                )
    with working_from(manifest.folder):
        return configure_attack(spec.use, spec.options, where=where, base=manifest.folder)


def _check_fitness(attack: ConfiguredAttack, where: str, manifest: Manifest) -> None:
    """The models an attack needs are there: its source, and one it applies to."""
    from unmask.evaluation.applicability import parts_of, references_of
    from unmask.evaluation.suite import stages_of
    from unmask.evaluation.targeting import refuse_untargetable
    from unmask.models.reference import ModelSelection

    for whole_or_stage in (attack, *stages_of(attack.use, attack, manifest.norm).values()):
        refuse_untargetable(whole_or_stage, where)
    for reference in references_of(attack.attack):
        if reference.module is None and reference.name not in manifest.models:
            raise UserError(
                f"attacks the model '{reference.name}', which this manifest has not. "
                f"{suggestion(reference.name, manifest.models)}",
                where=below(where, "source"),
            )
    names = list(manifest.models)
    for part in parts_of(attack.attack):
        if isinstance(part, ModelSelection) and not any(part.keys(name, names) for name in names):
            raise UserError(
                "applies to no model of this manifest, which has only one. Add another model, or "
                "name a source.",
                where=below(where, "source"),
            )
    if any(_may_have_front_end(spec, below("models", n), manifest) for n, spec in manifest.models.items()):
        return
    plain = _facts_of_a_plain_model()
    for part in parts_of(attack.attack):
        ask = getattr(part, "why_not", None)
        reason = ask(plain) if callable(ask) else None
        if reason:
            raise UserError(
                f"applies to no model of this manifest: {reason}. Add a model with a front end "
                '(backbone = "...", front-end = { use = "dncnn" }), or leave the attack out.',
                where=where,
            )


def _facts_of_a_plain_model() -> Any:
    import torch

    from unmask.evaluation.inspection import Member, ModelFacts

    member = Member(torch.nn.Identity())
    return ModelFacts("model", 2, (member,), torch.float32, torch.device("cpu"))


def _may_have_front_end(spec: ModelSpec, where: str, manifest: Manifest) -> bool:
    """False only where it is certain: code that is not ours may build anything."""
    if isinstance(spec, NetworkSpec):
        network = _network(spec, where, manifest)
        return network.provided.distribution != "unmask" or network.passes_options_on
    if isinstance(spec, CompositeSpec):
        return True
    inner = (manifest.models[p] if isinstance(p, str) else p for _, p in parts(spec, where))
    return any(_may_have_front_end(part, where, manifest) for part in inner)


def _check_model(spec: ModelSpec, where: str, manifest: Manifest) -> None:
    if isinstance(spec, NetworkSpec):
        network = _network(spec, where, manifest)
        _check_weights(spec.weights, where, manifest)
        default = None if spec.brings_weights else getattr(network.provided.entry, "recipe", None)
        _check_recipe(spec.recipe, default, where, manifest)
        return
    _check_weights(spec.weights, where, manifest)
    if isinstance(spec, CompositeSpec):
        place = below(where, "front-end")
        front_end = _front_end(spec.front_end, place, manifest)
        _check_weights(spec.front_end.weights, place, manifest)
        given = spec.weights or spec.front_end.weights
        default = None if given else getattr(front_end.provided.entry, "recipe", None)
        _check_recipe(spec.recipe, default, where, manifest)
    else:
        _ensemble(spec, below(where, "ensemble"), manifest)
        _check_recipe(spec.recipe, None, where, manifest)
    for place, part in parts(spec, where):
        if not isinstance(part, str):
            _check_model(part, place, manifest)


def _network(spec: NetworkSpec, where: str, manifest: Manifest) -> Resolved:
    supplied = _supplied(spec.weights)
    return resolve("model", spec.use, spec.options, where, manifest.folder, supplied=supplied)


def _front_end(spec: FrontEndSpec, where: str, manifest: Manifest) -> Resolved:
    supplied = _supplied(spec.weights)
    return resolve("front-end", spec.use, spec.options, where, manifest.folder, supplied=supplied)


def _ensemble(spec: EnsembleSpec, where: str, manifest: Manifest) -> Resolved:
    return resolve("ensemble", spec.use, spec.options, where, manifest.folder, supplied=("members",))


def _supplied(weights: WeightsSpec | None) -> tuple[str, ...]:
    """What a builder gets without its table saying so."""
    from unmask.models.data_facts import SUPPLIED

    return SUPPLIED if weights is None else (*SUPPLIED, "weights", "sha256")


def _check_weights(weights: WeightsSpec | None, where: str, manifest: Manifest) -> None:
    if weights is None:
        return
    with working_from(manifest.folder):
        path = resolved(weights.path)
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise UserError(
            f"the file '{weights.path}' {kind} (looked for at '{path}'; relative paths start from the "
            "manifest's folder).",
            where=below(where, "weights"),
        )


def _check_recipe(
    spec: RecipeSpec | None, default: Mapping[str, Any] | None, where: str, manifest: Manifest
) -> None:
    place = below(where, "recipe")
    if spec is None:
        if default is None:
            return
        spec = read_recipe({key.replace("_", "-"): value for key, value in default.items()}, place)
    recipe = resolve("recipe", spec.use, spec.options, place, manifest.folder)
    recipe.make()  # light, and what tells whether the values of its options make sense
    for option, name in _models_named_by(recipe):
        if name not in manifest.models:
            raise UserError(
                f"there is no model '{name}' in this manifest. {suggestion(name, manifest.models)}",
                where=below(place, option),
            )
    if spec.data is not None:
        _check_data(spec.data, below(place, "data"), manifest)
    elif not _check_data(manifest.data, "data", manifest).accepts("split"):
        raise UserError(
            f"there is nothing to train on: the data set '{manifest.data.use}' has no training part. "
            "Give the recipe data of its own, recipe = { use = ..., data = { use = ... } }, or the model "
            "weights.",
            where=place,
        )


def _models_named_by(recipe: Resolved) -> Iterator[tuple[str, str]]:
    """Each model of the manifest that a recipe's options name, after the option."""
    from unmask.evaluation.applicability import references_of

    for option, value in recipe.values.items():
        for reference in references_of(value):
            yield option.replace("_", "-"), reference.name


def _refuse_circles(manifest: Manifest) -> None:
    """No model is trained with the help of itself.

    Raises:
        UserError: One is.
    """

    def needed(spec: ModelSpec, where: str) -> Iterator[tuple[str, str]]:
        """Each model that must be there first, after the key path that says so."""
        if spec.recipe is not None:
            place = below(where, "recipe")
            recipe = resolve("recipe", spec.recipe.use, spec.recipe.options, place, manifest.folder)
            for option, name in _models_named_by(recipe):
                yield below(place, option), name
        for place, part in parts(spec, where):
            if isinstance(part, str):
                yield place, part
            else:
                yield from needed(part, place)

    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        for where, other in needed(manifest.models[name], below("models", name)):
            if other in path:
                circle = " -> ".join([*path[path.index(other) :], other])
                raise UserError(
                    f"is a circle: {circle}. A model cannot be trained with the help of itself.", where=where
                )
            if other not in done:
                visit(other, (*path, other))
        done.add(name)

    for name in manifest.models:
        if name not in done:
            visit(name, (name,))


def _check_data(spec: DataSpec, where: str, manifest: Manifest) -> Resolved:
    return resolve("data", spec.use, spec.options, where, manifest.folder)


def _check_metric(metric: str | Mapping[str, Any], where: str, manifest: Manifest) -> None:
    from unmask.building import build_component

    # A metric is light, and building it is what tells whether the values of its options make sense.
    options = {} if isinstance(metric, str) else {k: v for k, v in metric.items() if k != "use"}
    use = metric if isinstance(metric, str) else metric["use"]
    build_component("metric", use, options, where=where, base=manifest.folder)
