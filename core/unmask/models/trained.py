"""Trained weights: found in the cache by what made them, or made now."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
import torch
from torch import nn

from unmask import interrupt
from unmask.cache import Cache, key_of
from unmask.errors import PluginError, UserError
from unmask.evaluation.applicability import references_of
from unmask.evaluation.inputs import check_samples
from unmask.evaluation.inspection import inspect_model
from unmask.evaluation.random import derive_seed
from unmask.manifest.resolving import Resolved, resolve
from unmask.manifest.spec import Manifest, RecipeSpec
from unmask.models.checkpoint import INTERVAL, Checkpoint
from unmask.models.data_facts import DataFacts
from unmask.models.guest import guests
from unmask.models.initialisation import seeded
from unmask.models.making import Made, own_seed
from unmask.models.training_log import TrainingLog
from unmask.training import TrainingContext
from unmask.weights import load_state, sha256_of_state

__all__ = ["Named", "Progress", "Training", "TrainingView"]

Progress = Callable[[str, int, int], None]

Named = Callable[[str], tuple[nn.Module, str]]
"""From the name of a model of the manifest to the model, and what its weights are known by."""


@attrs.frozen
class TrainingView:
    """Who is told how a training goes.

    Attributes:
        progress: Told what, done and total as it goes.
        say: Told in a sentence what is worth knowing.
        interval: Seconds between two checkpoints.
    """

    progress: Progress = lambda what, done, total: None
    say: Callable[[str], None] = lambda sentence: None
    interval: float = INTERVAL


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


@attrs.frozen(eq=False)
class Training:
    """One training that a manifest asks for.

    Attributes:
        name: What it trains, for progress and messages.
        made: What it trains, untrained.
        recipe: How.
        record: Everything its result depends on, as JSON.
        data: Gives the training data.
        spec: The recipe's table.
        where: The recipe's key path.
        seed: What the recipe is given.
        models: The other models that the recipe's options name.
    """

    name: str
    made: Made
    recipe: Resolved
    record: Mapping[str, Any]
    data: DataFacts
    spec: RecipeSpec
    where: str
    seed: int
    models: Mapping[str, nn.Module]

    @classmethod
    def planned(
        cls,
        name: str,
        spec: RecipeSpec,
        where: str,
        *,
        manifest: Manifest,
        data: DataFacts,
        made: Made,
        whole: nn.Module,
        backbone: str | None,
        copy: int,
        named: Named,
    ) -> Training:
        """A training with the record that names its result.

        Args:
            name: What it trains, for progress and messages.
            spec: The recipe's table.
            where: Its key path.
            manifest: Gives the folder and the seed.
            data: Gives the training data.
            made: What is trained, with its initial weights.
            whole: What the recipe is given: the same, or the composite whose front end it is.
            backbone: What a front end stands before, by its identity; None for a model of its own.
            copy: Which copy of the model it is.
            named: Gives the other models that the recipe's options name.

        Raises:
            UserError: The recipe cannot train such a model.
        """
        recipe = resolve("recipe", spec.use, spec.options, where, manifest.folder)
        ask = getattr(recipe.make(), "why_not", None)
        if callable(ask) and (reason := ask(whole)):
            raise UserError(str(reason), where=where)
        others = {r.name: named(r.name) for value in recipe.values.values() for r in references_of(value)}
        seed = derive_seed("training", manifest.seed, copy, *own_seed(spec.seed))
        record = {
            "trained": _without_patch_version(made.description),
            "initial": made.state,
            "recipe": _without_patch_version(recipe.described()),
            "data": data.to_train_on(spec.data, where)[1],
            "seed": seed,
            "backbone": backbone if getattr(recipe.build, "sees_backbone", True) else "not seen",
        }
        if others:
            record["models"] = {other: identity for other, (_, identity) in others.items()}
        models = {other: module for other, (module, _) in others.items()}
        return cls(name, made, recipe, record, data, spec, where, seed, models)

    @property
    def key(self) -> str:
        """The name of its result in the cache."""
        return key_of(self.record)

    @property
    def described(self) -> dict[str, Any]:
        """How the weights came to be, as JSON."""
        return {
            "recipe": self.record["recipe"],
            "seed": self.seed,
            "data-sha256": self.record["data"],
            "key": self.key,
        }

    def restore(self, cache: Cache) -> bool:
        """Load the kept result; False where there is none."""
        state = cache.load(self.key)
        if state is None:
            return False
        load_state(self.made.module, state, f"'{cache.path(self.key)}'")
        return True

    def run(self, model: nn.Module, cache: Cache, device: torch.device, view: TrainingView) -> bool:
        """Train, and keep the result; False where another process did it meanwhile.

        An interrupted training of the same recipe goes on from its last checkpoint.

        Args:
            model: What the recipe is given: the module itself, or the composite whose front end it is.
            cache: Where the result goes.
            device: Where to compute; the model stays there.
            view: Is told how far it is.

        Raises:
            UserError: The model does not fit the data, the recipe refuses, or its result is not finite.
            PluginError: The recipe changed something else than it should.
        """

        def waiting(holder: str) -> None:
            view.say(f"{self.name}: {holder} trains the same; waiting for its result")

        with cache.alone(self.key, waiting):
            if self.restore(cache):
                return False
            checkpoint = Checkpoint(cache.checkpoint(self.key), view.interval)
            log = TrainingLog(cache.log(self.key), anew=not checkpoint.path.is_file())
            self._train(model, device, view, checkpoint, log)
            cache.store(self.key, self.made.module.state_dict(), self.record)
            checkpoint.remove()
        return True

    def _train(
        self,
        model: nn.Module,
        device: torch.device,
        view: TrainingView,
        checkpoint: Checkpoint,
        log: TrainingLog,
    ) -> None:
        part = self.made.module
        data, _ = self.data.to_train_on(self.spec.data, self.where)
        samples = check_samples(data.images, data.labels, data.bounds, data.ids)
        inspect_model(model.eval(), samples.images, samples.labels, name=self.name)
        train = self.recipe.make()
        who = f"the recipe '{self.recipe.provided.name}' of {self.recipe.provided.provider}"

        def report(what: str, done: int, total: int) -> None:
            view.progress(f"{self.name}: {what}", done, total)

        model.to(device)
        before = sha256_of_state(_others(model, part))
        with seeded(self.seed), self._context(train, device, view, checkpoint, log) as more:
            try:
                train(model, data, seed=self.seed, device=device, progress=report, **more)
            except UserError as error:
                raise error.located(where=self.where) from error
        model.eval()
        if sha256_of_state(_others(model, part)) != before:
            raise PluginError(f"{who} changed the backbone, which it must leave as it is.", where=self.where)
        state = part.state_dict()
        broken = [n for n, v in state.items() if v.is_floating_point() and not bool(torch.isfinite(v).all())]
        if broken:
            checkpoint.remove()
            raise UserError(
                f"training diverged: '{broken[0]}' is not finite after {who}. Lower its learning rate.",
                where=self.where,
            )

    @contextmanager
    def _context(
        self,
        train: Any,
        device: torch.device,
        view: TrainingView,
        checkpoint: Checkpoint,
        log: TrainingLog,
    ) -> Iterator[dict[str, Any]]:
        """What a recipe that asks for a context is given besides."""
        if "context" not in inspect.signature(train).parameters:
            yield {}
            return
        begun = "goes on from its checkpoint" if checkpoint.path.is_file() else "begins"
        view.say(f"{self.name}: training {begun}; measurements in {log.path}")
        for module in self.models.values():
            module.to(device)
        with guests(self.models.values()), interrupt.finishing():
            yield {"context": TrainingContext(self.models, checkpoint, log)}


def _others(model: nn.Module, part: nn.Module) -> dict[str, torch.Tensor]:
    """The named tensors of a model that are not its part's."""
    prefix = next(path for path, module in model.named_modules() if module is part)
    return {
        name: value
        for name, value in model.state_dict().items()
        if prefix and not name.startswith(f"{prefix}.")
    }


_PARTS = ("ensemble", "members", "front-end", "backbone")
"""Where descriptions of composites and ensembles hold those of their parts."""


def _without_patch_version(described: Mapping[str, Any]) -> dict[str, Any]:
    """A description whose versions are major.minor: a patch release does not throw trained weights away."""
    result = dict(described)
    if "version" in result:
        result["version"] = _minor(str(result["version"]))
    for part in _PARTS:
        inner = result.get(part)
        if isinstance(inner, Mapping):
            result[part] = _without_patch_version(inner)
        elif isinstance(inner, list):
            result[part] = [_without_patch_version(member) for member in inner]
    return result
