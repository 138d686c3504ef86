"""The conformance kit catches components of every other kind that do not keep their laws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import xarray as xr
from torch import nn
from torch.nn.functional import cross_entropy

from unmask.data import LabelledImages
from unmask.entries import (
    DataEntry,
    EnsembleEntry,
    FrontEndEntry,
    GradientEntry,
    MetricEntry,
    ModelEntry,
    RecipeEntry,
)
from unmask.evaluation.task import Slope
from unmask.markers import hookimpl
from unmask.plugins.catalog import Catalog, using
from unmask.plugins.loading import Candidate, installed_candidates, load_plugins
from unmask.testing import LawBroken, conformance


def net(classes: int = 5) -> nn.Sequential:
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(4, classes))


class Wrapped(nn.Module):
    """A model that does something to another one's answer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = net()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, images):
        return self.inner(images)


def honest_model() -> nn.Module:
    """Builds it."""
    return Wrapped()


def model(change) -> Any:
    def build() -> nn.Module:
        """Builds it."""
        return change()

    return build


class Probabilities(Wrapped):
    def forward(self, images):
        return super().forward(images).softmax(1)


class Counting(Wrapped):
    def forward(self, images):
        self.calls += 1
        return super().forward(images)


class Standardising(Wrapped):
    def forward(self, images):
        logits = super().forward(images)
        return (logits - logits.mean(0)) / (1 + logits.std(0, correction=0))


class AlwaysTraining(Wrapped):
    def train(self, mode: bool = True):
        return super().train(True)


class OwnSeeds(Wrapped):
    def __init__(self) -> None:
        super().__init__()
        nn.init.normal_(self.inner[0].weight, generator=torch.Generator().manual_seed(id(self) % 2**31))


class RootOfBlack(Wrapped):
    def forward(self, images):
        return super().forward(images.sqrt())


class OneLogit(Wrapped):
    def forward(self, images):
        return super().forward(images)[:, :1]


class Shift(nn.Module):
    def forward(self, images):
        return 0.9 * images + 0.05


class Noise(nn.Module):
    def forward(self, images):
        return images + 0.1 * torch.randn_like(images)


class Rounded(nn.Module):
    def forward(self, images):
        return images + ((255 * images).round() / 255 - images).detach()


class InPlace(nn.Module):
    def forward(self, images):
        return images.mul_(0.5)


class Grey(nn.Module):
    def forward(self, images):
        return images.mean(1, keepdim=True)


class Mean(nn.Module):
    def __init__(self, members) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, images):
        return torch.stack([member(images) for member in self.members]).mean(0)


def honest_ensemble(members) -> nn.Module:
    """Builds it."""
    return Mean(members)


def editing_ensemble(members) -> nn.Module:
    """Builds it."""
    with torch.no_grad():
        for parameter in members[0].parameters():
            parameter.mul_(2.0)
    return Mean(members)


def first_logit_ensemble(members) -> nn.Module:
    """Builds it."""
    return nn.Sequential(Mean(members), nn.Linear(5, 4))


def source(sign: float = 1.0, mean: bool = False, noise: bool = False, reply: bool = True):
    """A builder of a gradient source that is honest, or errs in one way."""

    def build():
        """Builds it."""

        def gradient(task, x, loss):
            x = x.detach().requires_grad_()
            logits = task.target(x)
            values = loss(logits, task.goals)
            (found,) = torch.autograd.grad(values.mean() if mean else values.sum(), x)
            if noise:
                found = found + 1e-8 * torch.randn_like(found)
            told = logits.detach() if reply else torch.zeros_like(logits)
            return Slope(sign * found, values.detach(), told)

        return gradient

    return build


def nan_at_zero():
    """Builds it."""

    def gradient(task, x, loss):
        slope = source()()(task, x, loss)
        norm = slope.gradient.flatten(1).norm(dim=1).reshape(-1, 1, 1, 1)
        return Slope(slope.gradient / norm * norm, slope.loss, slope.logits)

    return gradient


def metric(function):
    def build():
        """Builds it."""
        return function

    return build


def half(results: xr.Dataset) -> xr.DataArray:
    return 0.5 * results["clean_correct"].mean("sample")


def spoiling(results: xr.Dataset) -> xr.DataArray:
    results["margin"].values[:] = 0
    return half(results)


def drawing(results: xr.Dataset) -> xr.DataArray:
    return half(results) * float(torch.rand(()))


def raising(results: xr.Dataset) -> xr.DataArray:
    raise RuntimeError("no such thing")


def images_of(**changes: Any) -> LabelledImages:
    generator = torch.Generator().manual_seed(0)
    given: dict[str, Any] = {
        "images": torch.rand(12, 1, 3, 4, generator=generator),
        "labels": torch.arange(12) % 3,
        "ids": torch.arange(12),
        "name": "made",
    }
    return LabelledImages(**{**given, **changes})


def honest_data(split: str = "test") -> LabelledImages:
    """Builds it.

    Args:
        split: ``test`` or ``train``.
    """
    return images_of() if split == "test" else images_of(images=0.5 * torch.ones(12, 1, 3, 4))


def leaking_data(split: str = "test") -> LabelledImages:
    """Builds it.

    Args:
        split: ``test`` or ``train``.
    """
    return images_of()


def shuffled_data() -> LabelledImages:
    """Builds it."""
    return images_of().select(torch.randperm(12))


def byte_data() -> LabelledImages:
    """Builds it."""
    return images_of(images=255 * torch.rand(12, 1, 3, 4))


def twin_data() -> LabelledImages:
    """Builds it."""
    return images_of(ids=torch.zeros(12, dtype=torch.int64))


def recipe(*, train: bool = True, evaluate: bool = True, seeded: bool = True, finish: bool = True):
    """A builder of a recipe that is honest, or forgets one thing."""

    def build():
        """Builds it."""

        def run(model, data, *, seed, device, progress):
            generator = torch.Generator().manual_seed(seed)
            model.train()
            optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
            for step in range(2):
                rows = torch.randint(0, len(data), (8,), generator=generator if seeded else None)
                loss = cross_entropy(model(data.images[rows]), data.labels[rows])
                optimiser.zero_grad()
                loss.backward()
                if train:
                    optimiser.step()
                if finish:
                    progress("training", step + 1, 2)
            if evaluate:
                model.eval()

        return run

    return build


HONEST = {
    "model": honest_model,
    "front-end": model(Shift),
    "ensemble": honest_ensemble,
    "gradient": source(),
    "metric": metric(half),
    "data": honest_data,
    "recipe": recipe(),
}

LAWLESS: dict[str, tuple[str, Any, str, dict[str, Any]]] = {
    "probabilities": ("model", model(Probabilities), "is_taken_by_an_evaluation", {}),
    "counting": ("model", model(Counting), "changes_nothing_when_called", {}),
    "standardising": ("model", model(Standardising), "gives_every_row_its_own_answer", {}),
    "always-training": ("model", model(AlwaysTraining), "answers_with_logits", {}),
    "one-logit": ("model", model(OneLogit), "answers_with_logits", {}),
    "own-seeds": ("model", model(OwnSeeds), "draws_its_weights_from_the_global_generators", {}),
    "root-of-black": ("model", model(RootOfBlack), "lets_finite_gradients_through", {}),
    "no-recipe": ("model", honest_model, "names_a_recipe_that_exists", {"recipe": {"use": "standrad"}}),
    "says-noisy": (
        "front-end",
        model(Shift),
        "declares_truly_whether_it_is_stochastic",
        {"stochastic": True},
    ),
    "hides-noise": ("front-end", model(Noise), "declares_truly_whether_it_is_stochastic", {}),
    "says-rough": (
        "front-end",
        model(Shift),
        "declares_truly_whether_it_is_differentiable",
        {"differentiable": False},
    ),
    "straight-through": ("front-end", model(Rounded), "declares_truly_whether_it_is_differentiable", {}),
    "in-place": ("front-end", model(InPlace), "changes_nothing_when_called", {}),
    "grey": ("front-end", model(Grey), "maps_images_to_images", {}),
    "grey-for-model": ("front-end", model(Grey), "is_taken_by_an_evaluation", {}),
    "flat-surrogate": (
        "front-end",
        model(Shift),
        "has_a_surrogate_that_works",
        {"surrogate": lambda images: 0 * images},
    ),
    "editing": ("ensemble", editing_ensemble, "leaves_its_members_alone", {}),
    "other-classes": ("ensemble", first_logit_ensemble, "answers_like_its_members", {}),
    "downhill": ("gradient", source(sign=-1.0), "is_right_about_affine_functions", {}),
    "averaged": ("gradient", source(mean=True), "is_right_about_affine_functions", {}),
    "averaged-rows": ("gradient", source(mean=True), "gives_every_row_its_own", {}),
    "global-noise": ("gradient", source(noise=True), "leaves_the_model_and_the_world_alone", {}),
    "silent": ("gradient", source(reply=False), "tells_gradient_loss_and_logits", {}),
    "nan-at-zero": ("gradient", nan_at_zero, "survives_a_gradient_of_zero", {}),
    "secret-gradient": ("gradient", source(), "takes_gradients_only_if_it_says_so", {"access": "scores"}),
    "raising": ("metric", metric(raising), "measures_without_failing", {}),
    "other-dims": ("metric", metric(half), "has_the_dimensions_it_declares", {"dims": ("attack",)}),
    "spoiling": ("metric", metric(spoiling), "leaves_the_results_alone", {}),
    "drawing": ("metric", metric(drawing), "measures_the_same_again", {}),
    "leaking": ("data", leaking_data, "keeps_training_and_test_apart", {}),
    "shuffled": ("data", shuffled_data, "gives_the_same_again", {}),
    "bytes": ("data", byte_data, "gives_labelled_images", {}),
    "twins": ("data", twin_data, "gives_labelled_images", {}),
    "lazy": ("recipe", recipe(train=False), "trains_in_place", {}),
    "mute": ("recipe", recipe(finish=False), "trains_in_place", {}),
    "left-training": ("recipe", recipe(evaluate=False), "leaves_a_model_that_can_be_evaluated", {}),
    "unseeded": ("recipe", recipe(seeded=False), "gives_the_same_for_the_same_seed", {}),
}

TYPES: dict[str, Any] = {
    "model": ModelEntry,
    "front-end": FrontEndEntry,
    "ensemble": EnsembleEntry,
    "gradient": GradientEntry,
    "metric": MetricEntry,
    "data": DataEntry,
    "recipe": RecipeEntry,
}


def entries(kind: str) -> list[Any]:
    found = [("honest", HONEST[kind], {})]
    found += [(name, build, changes) for name, (of, build, _, changes) in LAWLESS.items() if of == kind]
    dims = {"dims": ("model",)} if kind == "metric" else {}
    return [
        TYPES[kind](
            name=f"{name}-{kind}", summary="A test.", reference="none", build=build, **{**dims, **changes}
        )
        for name, build, changes in found
    ]


class Plugin:
    @hookimpl
    def unmask_models(self):
        return entries("model")

    @hookimpl
    def unmask_front_ends(self):
        return entries("front-end")

    @hookimpl
    def unmask_ensembles(self):
        return entries("ensemble")

    @hookimpl
    def unmask_gradients(self):
        return entries("gradient")

    @hookimpl
    def unmask_metrics(self):
        return entries("metric")

    @hookimpl
    def unmask_data(self):
        return entries("data")

    @hookimpl
    def unmask_recipes(self):
        return entries("recipe")


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    plugin = Candidate("lawless", "1", "plugin", "lawless", Plugin)
    with using(Catalog(load_plugins([*installed_candidates(), plugin]))) as catalog:
        assert not [failure for failure in catalog.failures if failure.distribution == "lawless"]
        yield


def suite_of(name: str, kind: str) -> dict[str, Any]:
    return conformance(f"{name}-{kind}", image=(3, 6, 7))


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_component_passes_every_check(kind: str) -> None:
    tests = suite_of("honest", kind)
    assert len(tests) >= 6
    for test in tests.values():
        test()


@pytest.mark.parametrize("name", LAWLESS)
def test_a_lawless_component_is_caught_by_the_check_made_for_it(name: str) -> None:
    kind, _, check, _ = LAWLESS[name]
    test = suite_of(name, kind)[f"test_{kind}_{name}_{kind}_{check}".replace("-", "_")]
    with pytest.raises(LawBroken) as caught:
        test()
    assert caught.value.law == test.__doc__
    assert caught.value.remedy


def test_every_check_of_every_kind_has_a_lawless_one() -> None:
    of_all = {"is_registered_and_described", "documents_every_option", "names_a_recipe_that_exists"}
    # The same checks of models, which ensembles share.
    shared = {"ensemble": {"is_taken_by_an_evaluation", "changes_nothing_when_called"}}
    for kind in HONEST:
        prefix = f"test_{kind}_honest_{kind}_".replace("-", "_")
        checks = {name.removeprefix(prefix) for name in suite_of("honest", kind)}
        caught = {check for of, _, check, _ in LAWLESS.values() if of == kind}
        assert checks - caught - of_all == shared.get(kind, set()), kind
