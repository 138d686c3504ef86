"""Trained weights: found in the cache by what made them, or made now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import torch
from torch import nn

from unmask.cache import Cache, key_of
from unmask.errors import PluginError, UserError
from unmask.evaluation.inputs import check_samples
from unmask.evaluation.inspection import inspect_model
from unmask.evaluation.random import derive_seed
from unmask.manifest.resolving import Resolved, resolve
from unmask.manifest.spec import Manifest, RecipeSpec
from unmask.models.data_facts import DataFacts
from unmask.models.initialisation import seeded
from unmask.models.making import Made
from unmask.weights import load_state, sha256_of_state

__all__ = ["Progress", "Training"]

Progress = Callable[[str, int, int], None]


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
    """

    name: str
    made: Made
    recipe: Resolved
    record: Mapping[str, Any]
    data: DataFacts
    spec: RecipeSpec
    where: str
    seed: int

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
        backbone: str | None,
        copy: int,
    ) -> Training:
        """A training with the record that names its result.

        Args:
            name: What it trains, for progress and messages.
            spec: The recipe's table.
            where: Its key path.
            manifest: Gives the folder and the seed.
            data: Gives the training data.
            made: What is trained, with its initial weights.
            backbone: What a front end stands before, by its identity; None for a model of its own.
            copy: Which copy of the model it is.
        """
        recipe = resolve("recipe", spec.use, spec.options, where, manifest.folder)
        seed = derive_seed("training", manifest.seed, copy)
        record = {
            "trained": _without_patch_version(made.description),
            "initial": made.state,
            "recipe": _without_patch_version(recipe.described()),
            "data": data.to_train_on(spec.data, where)[1],
            "seed": seed,
            "backbone": backbone,
        }
        return cls(name, made, recipe, record, data, spec, where, seed)

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

    def run(self, model: nn.Module, cache: Cache, device: torch.device, progress: Progress) -> None:
        """Train, and keep the result.

        Args:
            model: What the recipe is given: the module itself, or the composite whose front end it is.
            cache: Where the result goes.
            device: Where to compute; the model stays there.
            progress: Is told how far it is.

        Raises:
            UserError: The model does not fit the data, the recipe refuses, or its result is not finite.
            PluginError: The recipe changed something else than it should.
        """
        cache.prepare()
        part = self.made.module
        data, _ = self.data.to_train_on(self.spec.data, self.where)
        samples = check_samples(data.images, data.labels, data.bounds, data.ids)
        inspect_model(model.eval(), samples.images, samples.labels, name=self.name)
        train = self.recipe.make()
        who = f"the recipe '{self.recipe.provided.name}' of {self.recipe.provided.provider}"

        def report(what: str, done: int, total: int) -> None:
            progress(f"{self.name}: {what}", done, total)

        model.to(device)
        before = sha256_of_state(_others(model, part))
        with seeded(self.seed):
            try:
                train(model, data, seed=self.seed, device=device, progress=report)
            except UserError as error:
                raise error.located(where=self.where) from error
        model.eval()
        if sha256_of_state(_others(model, part)) != before:
            raise PluginError(f"{who} changed the backbone, which it must leave as it is.", where=self.where)
        state = part.state_dict()
        broken = [n for n, v in state.items() if v.is_floating_point() and not bool(torch.isfinite(v).all())]
        if broken:
            raise UserError(
                f"training diverged: '{broken[0]}' is not finite after {who}. Lower its learning rate.",
                where=self.where,
            )
        cache.store(self.key, state, self.record)


def _others(model: nn.Module, part: nn.Module) -> dict[str, torch.Tensor]:
    """The named tensors of a model that are not its part's."""
    prefix = next(path for path, module in model.named_modules() if module is part)
    return {
        name: value
        for name, value in model.state_dict().items()
        if prefix and not name.startswith(f"{prefix}.")
    }


def _without_patch_version(described: Mapping[str, Any]) -> dict[str, Any]:
    """A description whose version is major.minor: a patch release does not throw trained weights away."""
    return {**described, "version": _minor(str(described["version"]))}
