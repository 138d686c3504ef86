"""What holds for every registered attack, ours and anybody's, in every norm it says it knows.

Attacks are taken from the catalogue, with options that cost so much cut down, so that a plugin that is
installed beside the built-ins is held to the same.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unmask
from unmask.dimensions import Status
from unmask.options import describe_options
from unmask.plugins.catalog import catalog

BUDGET = {
    "steps": 3,
    "queries": 8,
    "searches": 2,
    "evaluations": 6,
    "most-evaluations": 12,
    "tries": 4,
    "samples": 4,
    "restarts": 2,
    "targets": 12,
}
"""Options that cost, cut down; more targets than most models have classes."""

SUITE = {
    "version": "custom",
    "attacks": [{"use": "pgd", "steps": 2}, {"use": "deepfool", "steps": 2}, {"use": "square", "queries": 4}],
}


def attacks() -> list[Any]:
    """Every attack with every norm it knows."""
    found = []
    for provided in catalog().entries("attacks"):
        for norm in provided.entry.norms:
            found.append(pytest.param(provided.name, norm, id=f"{provided.name}-{norm}"))
    return found


def small(name: str, norm: str, **more: Any) -> unmask.ConfiguredAttack:
    """An attack with a small budget."""
    build = catalog().find("attacks", name).builder()
    known = {option.name: option for option in describe_options(build)}
    if {"version", "attacks"} <= known.keys():
        entries = [(a, catalog().find("attacks", a["use"]).entry) for a in SUITE["attacks"]]
        stages = [a for a, entry in entries if norm in entry.norms and (entry.targeted or not more)]
        return unmask.attack(name, **{**SUITE, "attacks": stages}, **more)
    options: dict[str, Any] = {key.replace("-", "_"): n for key, n in BUDGET.items() if key in known}
    if "source" in known:
        options["source"] = "m"
    if "attack" in known:
        options["attack"] = {"use": "pgd", "steps": 3}
    return unmask.attack(name, **options, **more)


def radius(norm: str, size: int) -> float:
    return {"linf": 0.1, "l2": 0.2 * math.sqrt(size), "l1": 0.15 * size}[norm]


class Scaled(torch.nn.Module):
    """A linear model whose logits are scaled and shifted."""

    def __init__(self, weight, scale: float, shift: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight)
        self.scale, self.shift = scale, shift

    def forward(self, images):
        return self.scale * (images.flatten(1) @ self.weight.T) + self.shift


def run(model, images, labels, name, norm, epsilons, **options):
    attack = options.pop("attack", None) or small(name, norm)
    return unmask.evaluate(
        {"m": model}, images, labels, {"a": attack}, epsilons, norm, keep_examples=True, **options
    )


@pytest.mark.parametrize(("name", "norm"), attacks())
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    shape=st.sampled_from([(1, 1, 1), (1, 1, 5), (3, 2, 2), (2, 5, 3), (1, 7, 7)]),
    classes=st.sampled_from([2, 3, 4, 12]),
    n=st.sampled_from([1, 6]),
    scale=st.sampled_from([1.0, 2.0**10]),
    shift=st.sampled_from([0.0, 1000.0]),
    kind=st.sampled_from([torch.int64, torch.int32, torch.int8, np.uint8]),
    seed=st.integers(0, 100),
)
def test_examples_stay_in_ball_and_box_and_errors_untouched(
    name, norm, shape, classes, n, scale, shift, kind, seed
):
    generator = torch.Generator().manual_seed(seed)
    size = math.prod(shape)
    model = Scaled(torch.randn(classes, size, generator=generator) / math.sqrt(size), scale, shift).eval()
    images = (0.5 + 0.5 * torch.randn((n, *shape), generator=generator)).clamp(0, 1)
    labels = model(images).argmax(1).detach()
    labels[: n // 3] = (labels[: n // 3] + 1) % classes
    given_labels = labels.numpy().astype(kind) if kind is np.uint8 else labels.to(kind)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    kept_images, state = images.clone(), torch.random.get_rng_state()
    numpy_state, python_state = np.random.get_state()[1].copy(), random.getstate()

    epsilons = [0.0, radius(norm, size) / 3, radius(norm, size)]
    results = run(model, images, given_labels, name, norm, epsilons, seed=seed)

    assert (results.message == "").all(), str(results.message.values.ravel())
    # The guest and the world are as they were.
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert model.weight.grad is None
    assert torch.equal(images, kept_images)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)
    assert random.getstate() == python_state

    difference = results.adversarial.values.astype(np.float64) - images.numpy().astype(np.float64)
    examples = results.adversarial.values
    assert examples.min() >= 0
    assert examples.max() <= 1
    flat = np.abs(difference.reshape(*difference.shape[:4], -1))
    sizes = {"linf": flat.max(-1), "l2": np.sqrt((flat**2).sum(-1)), "l1": flat.sum(-1)}[norm]
    assert (sizes <= results.epsilon.values[None, None, :, None]).all()
    # Nothing is possible at radius zero, and a clean error is left as it is at every radius.
    assert (examples[:, :, 0] == images.numpy()).all()
    np.testing.assert_array_equal(results.correct.values[0, 0, 0], results.clean_correct.values[0])
    wrong = results.clean_correct.values[0] == 0
    assert (examples[0, :, :, wrong] == images.numpy()[wrong][:, None, None]).all()
    assert (results.forwards.values[0, :, :, wrong] == 0).all()
    assert (results.status.values[0, :, :, wrong] == Status.CLEAN_ERROR).all()
    assert (results.correct <= results.clean_correct).all()
    assert (np.diff(results.correct.values, axis=2) <= 0).all()
    assert not np.isin(
        results.status.values, (Status.BUDGET_VIOLATION, Status.BOX_VIOLATION, Status.NON_FINITE)
    ).any()


@pytest.fixture(scope="module")
def net():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Conv2d(2, 6, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(6, 6, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(36, 4),
        ).eval()


OUTCOME = (
    "correct",
    "prediction",
    "confidence",
    "margin",
    "distance",
    "forwards",
    "backwards",
    "status",
    "gradient_zero",
    "adversarial",
)


@pytest.mark.parametrize(("name", "norm"), attacks())
def test_the_outcome_is_the_same_in_any_batch_and_order(net, name, norm):
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(9, 2, 5, 4, generator=generator)
    labels = net(images).argmax(1).detach()
    labels[4] = (labels[4] + 1) % 4
    epsilons = [radius(norm, 40) / 4, radius(norm, 40)]
    whole = run(net, images, labels, name, norm, epsilons)
    order = torch.randperm(9, generator=generator)
    others = [
        run(net, images, labels, name, norm, epsilons, batch_size=1),
        run(net, images, labels, name, norm, epsilons, batch_size=7),
        run(net, images[order], labels[order], name, norm, epsilons, sample_ids=order),
    ]
    assert (whole.message == "").all(), str(whole.message.values.ravel())
    for other in others:
        again = other.sel(sample=whole.sample)
        for variable in OUTCOME:
            np.testing.assert_array_equal(
                again[variable].values, whole[variable].values, err_msg=f"{name} {norm} {variable}"
            )


@pytest.mark.parametrize(("name", "norm"), attacks())
def test_ties_and_zero_gradients_neither_crash_nor_count(known, name, norm):
    images = torch.rand(3, 1, 2, 3, generator=torch.Generator().manual_seed(0))
    tied = known.Constant(1.0, 1.0, 1.0).eval()
    results = run(tied, images, torch.zeros(3, dtype=torch.long), name, norm, [radius(norm, 6)])
    assert (results.message == "").all(), str(results.message.values.ravel())
    # The first of several largest logits is the prediction, everywhere.
    assert (results.correct == 1).all()
    assert (results.prediction == 0).all()

    model, _, _ = known.linear_problem(shape=(1, 2, 3))
    flat = torch.nn.Sequential(known.ZeroBackward(), model).eval()
    labels = model(images).argmax(1).detach()
    results = run(flat, images, labels, name, norm, [radius(norm, 6) / 10])
    assert (results.message == "").all(), str(results.message.values.ravel())
    if results.sizes["attack"] > 1:
        return  # a suite: its stages differ in what they ask for
    told = results.status.values == Status.ZERO_GRADIENT
    # A nearest search may have stumbled on an example that is farther away.
    nowhere = np.isinf(results.distance.values) | (str(results.search.item()) == "within")
    np.testing.assert_array_equal(
        told, (results.backwards.values > 0) & (results.correct.values == 1) & nowhere
    )


def targetable() -> list[Any]:
    return [p for p in attacks() if catalog().find("attacks", p.values[0]).entry.targeted]


@pytest.mark.parametrize(("name", "norm"), targetable())
def test_targets_are_reached_or_not_and_told_either_way(known, name, norm):
    model, images, _ = known.linear_problem(n=8, classes=3)
    labels = model(images).argmax(1).detach()
    aimed = small(name, norm, targeted=True, target=1)
    results = run(model, images, labels, name, norm, [radius(norm, 12)], attack=aimed, seed=1)
    assert (results.message == "").all(), str(results.message.values.ravel())
    reached = results.target_reached.values[0, -1, 0]
    free = (labels != 1).numpy()
    assert np.isnan(reached[~free]).all()
    np.testing.assert_array_equal(reached[free], results.prediction.values[0, -1, 0][free] == 1)
    assert (results.forwards.values[0, -1, 0][~free] == 0).all()
