"""Nearest searches against the closed form: on an affine model the distance is margin over dual norm."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import unmask

WIDE = (-2.0, 3.0)


def interior_problem(known, classes: int, n: int = 16, shape: tuple[int, int, int] = (3, 3, 4)):
    """A linear model and images so far from the box that it plays no part."""
    generator = torch.Generator().manual_seed(0)
    size = math.prod(shape)
    model = known.Linear(torch.randn(classes, size, generator=generator) / size**0.5).eval()
    images = 0.5 + 0.1 * torch.randn((n, *shape), generator=generator).clamp(-2, 2)
    return model, images, model(images).argmax(1).detach()


def distances(model, images: Tensor, labels: Tensor, norm: str, target: int | None = None) -> np.ndarray:
    """To the nearest boundary; with a target of two classes, to that of the target."""
    weight, logits = model.weight.detach().double(), model(images).detach().double()
    nearest = torch.full((len(images),), torch.inf, dtype=torch.float64)
    for k in range(len(weight)) if target is None else [target]:
        difference = weight[k] - weight[labels]
        dual = {
            "linf": difference.abs().sum(1),
            "l2": difference.norm(dim=1),
            "l1": difference.abs().amax(1),
        }[norm]
        gap = logits.gather(1, labels[:, None]).squeeze(1) - logits[:, k]
        nearest = torch.minimum(nearest, torch.where(labels == k, torch.inf, gap / dual.clamp_min(1e-30)))
    return nearest.numpy()


# How much farther than the truth each may be, for two classes and for more. The searches by classes alone
# walk along whichever boundary they meet first; of several starts the door keeps the best.
CASES = [
    ("deepfool", {}, "linf", 1.021, 1.021),
    ("deepfool", {}, "l2", 1.021, 1.021),
    ("carlini-wagner", {"steps": 150, "searches": 6}, "l2", 1.02, 1.10),
    ("ddn", {"steps": 150, "loss": "margin"}, "l2", 1.01, 1.05),
    ("fmn", {"steps": 150}, "linf", 1.001, 1.06),
    ("fmn", {"steps": 150}, "l2", 1.001, 1.03),
    ("fmn", {"steps": 150}, "l1", 1.001, 1.03),
    ("boundary", {"steps": 1200, "sphere_step": 0.2, "inward_step": 0.1}, "l2", 1.05, 1.6),
    ("hop-skip-jump", {"steps": 15, "restarts": 2}, "l2", 1.05, 1.6),
    ("hop-skip-jump", {"steps": 15, "restarts": 2}, "linf", 1.06, 1.6),
]


@pytest.mark.parametrize(("attack", "options", "norm", "two", "more"), CASES)
@pytest.mark.parametrize("classes", [2, 3, 4, 10])
def test_distances_on_affine_models_are_within_a_ratio(known, attack, options, norm, two, more, classes):
    model, images, labels = interior_problem(known, classes)
    results = unmask.evaluate(
        {"m": model}, images, labels, {"a": unmask.attack(attack, **options)}, [1e-3, 10.0], norm, WIDE
    )
    assert (results.message == "").all()
    ratio = results.distance.values[0, 0, 0] / distances(model, images, labels, norm)
    assert ratio.min() >= 1 - 1e-5, "closer than the boundary"
    assert ratio.max() <= (two if classes == 2 else more)
    # Every radius is read off the one run.
    assert (results.correct.sel(epsilon=1e-3) == (results.distance.sel(epsilon=1e-3) > 1e-3)).all()
    assert (results.correct.sel(epsilon=10.0) == 0).all()


@pytest.mark.parametrize(
    ("attack", "options", "norm", "ratio"),
    [
        ("carlini-wagner", {"steps": 150, "searches": 6}, "l2", 1.05),
        ("ddn", {"steps": 200, "loss": "margin"}, "l2", 1.10),
        ("fmn", {"steps": 150}, "linf", 1.10),
        ("fmn", {"steps": 150}, "l2", 1.05),
        ("fmn", {"steps": 150}, "l1", 1.05),
    ],
)
def test_targeted_distances_are_those_of_the_target(known, attack, options, norm, ratio):
    """Two classes: the other one is the target, so both distances agree; of three classes it is no closer."""
    model, images, labels = interior_problem(known, 2)
    aimed = {"targeted": True, "target": [1 - label for label in labels.tolist()], **options}
    results = unmask.evaluate(
        {"m": model}, images, labels, {"a": unmask.attack(attack, **aimed)}, [10.0], norm, WIDE
    )
    found = results.distance.values[0, 0, 0] / distances(model, images, labels, norm)
    assert found.min() >= 1 - 1e-5
    assert found.max() <= ratio
    assert (results.target_reached == 1).all()

    model, images, labels = interior_problem(known, 3)
    results = unmask.evaluate(
        {"m": model},
        images,
        labels,
        {"a": unmask.attack(attack, **options, targeted=True, target=2)},
        [0.001, 10.0],
        norm,
        WIDE,
    )
    free = labels != 2
    found = results.distance.sel(epsilon=10.0).values[0, 0][free]
    assert (found >= distances(model, images, labels, norm, target=2)[free] * (1 - 1e-5)).all()
    assert (results.prediction.sel(epsilon=10.0).values[0, 0][free] == 2).all()
    reached = results.target_reached.values[0, 0]
    assert (reached[1][free] == 1).all()
    assert np.array_equal(reached[0][free], (found <= 0.001).astype(float))
    assert np.isnan(reached[:, ~free]).all()


def test_ddn_rounds_to_the_levels_it_is_told(known):
    model, images, labels = interior_problem(known, 2)
    images = (images.clamp(0, 1) * 255).round() / 255
    labels = model(images).argmax(1).detach()
    results = unmask.evaluate(
        {"m": model},
        images,
        labels,
        {"a": unmask.attack("ddn", steps=60, levels=256)},
        [10.0],
        "l2",
        keep_examples=True,
    )
    found = results.adversarial.values[results.correct.values == 0] * 255
    assert len(found)
    assert np.abs(found - found.round()).max() < 1e-3


def test_searches_by_classes_alone_see_no_more_than_the_class(known):
    """Logits that differ by orders of magnitude, with the same largest, lead to the same example."""
    model, images, labels = interior_problem(known, 3, n=6)
    model.double()
    images = images.double()

    class Hard(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return torch.nn.functional.one_hot(self.inner(x).argmax(1), 3).to(x) * 7.0

    attacks = {
        "boundary": unmask.attack("boundary", steps=60),
        "hop-skip-jump": unmask.attack("hop-skip-jump", steps=3, evaluations=30),
    }
    seen = [
        unmask.evaluate({"m": m}, images, labels, attacks, [10.0], "l2", WIDE, keep_examples=True)
        for m in (model, Hard(model).eval())
    ]
    np.testing.assert_array_equal(seen[0].adversarial.values, seen[1].adversarial.values)
    assert (seen[0].backwards == 0).all()


def test_a_sample_without_any_adversarial_start_is_left_alone(known):
    model = known.Constant(1.0, 0.0).eval()
    images, labels = torch.rand(3, 1, 2, 2), torch.zeros(3, dtype=torch.long)
    attacks = {
        "boundary": unmask.attack("boundary", steps=20, tries=4),
        "hop-skip-jump": unmask.attack("hop-skip-jump", steps=2, tries=4),
    }
    results = unmask.evaluate({"m": model}, images, labels, attacks, [1.0], "l2")
    assert np.isinf(results.distance.values).all()
    assert (results.correct == 1).all()
    assert (results.forwards <= 5).all()


@pytest.mark.parametrize("attack", ["deepfool", "carlini-wagner", "ddn", "fmn"])
def test_zero_gradients_find_nothing_and_are_told(known, attack):
    _, images, labels = known.linear_problem(n=6)
    model = torch.nn.Sequential(known.ZeroBackward(), known.linear_problem()[0]).eval()
    options = {"steps": 5, **({"searches": 2} if attack == "carlini-wagner" else {})}
    results = unmask.evaluate(
        {"m": model}, images, labels, {"a": unmask.attack(attack, **options)}, [5.0], "l2"
    )
    standing = results.correct.values[0, 0, 0] == 1
    assert standing.any()
    assert (results.gradient_zero.values[0, 0, 0][standing] == 1).all()


def test_carlini_wagner_leads_by_its_confidence(known):
    """The door keeps the closest adversarial example whatever its lead, so this looks at the search
    itself.
    """
    model, images, labels = interior_problem(known, 2, n=8)
    configured = unmask.attack("carlini-wagner", steps=150, searches=6, confidence=0.5, c=1.0)
    assert configured.options["steps"] == 150
    attack = configured.attack
    assert attack.steps == 900
    task = known.task_of(model, images, labels, "l2", math.inf, bounds=WIDE)
    state = attack.start(task)
    for _ in range(attack.steps):
        state = attack.step(task, state)
    logits = model(state.x).detach()
    lead = logits.gather(1, 1 - labels[:, None]) - logits.gather(1, labels[:, None])
    assert (lead >= 0.5 - 1e-5).all()
    truth = distances(model, images, labels, "l2")
    gap = model(images).detach().gather(1, labels[:, None]) - model(images).detach().gather(
        1, 1 - labels[:, None]
    )
    ratio = state.size.numpy() / (truth * (1 + 0.5 / gap.squeeze(1).double().numpy()))
    assert ratio.min() >= 1 - 1e-5
    assert ratio.max() <= 1.05


def distance_in_the_box(slope: Tensor, gap: float, image: Tensor, norm: str) -> float:
    """Of the boundary gap + slope·δ = 0 from an image in [0, 1]; inf where the box does not reach it."""
    rate = slope.abs()
    room = torch.where(slope > 0, 1 - image, image)
    if norm == "l1":  # the steepest values first, each up to the border
        order = rate.argsort(descending=True)
        gained = (rate * room)[order].cumsum(0)
        j = int((gained < gap).sum())
        if j == len(rate):
            return math.inf
        before = gained[j] - (rate * room)[order][j]
        return float(room[order][:j].sum() + (gap - before) / rate[order][j])
    low, high = 0.0, 1e6  # δ = min(s |slope|, room), by bisection over s
    if float((rate * room).sum()) < gap:
        return math.inf
    for _ in range(200):
        s = (low + high) / 2
        short = float((rate * torch.minimum(s * rate, room)).sum()) < gap
        low, high = (s, high) if short else (low, s)
    return float(torch.minimum(high * rate, room).norm())


@pytest.mark.parametrize(("norm", "more"), [("l2", 1.5), ("l1", 2.5)])
@pytest.mark.parametrize("classes", [2, 10])
def test_fmn_is_not_stopped_by_the_border_of_the_box(known, norm, more, classes):
    """Half of the values lie at the border, where one direction leads nowhere."""
    generator = torch.Generator().manual_seed(0)
    size = 48
    model = known.Linear(torch.randn(classes, size, generator=generator) / size**0.5).eval()
    images = torch.rand((32, 3, 4, 4), generator=generator)
    images = torch.where(images < 0.25, 0.0, torch.where(images > 0.75, 1.0, images))
    labels = model(images).argmax(1).detach()
    weight, logits = model.weight.detach().double(), model(images).detach().double()
    truth = np.full(len(images), np.inf)
    for i, label in enumerate(labels.tolist()):
        for k in set(range(classes)) - {label}:
            gap = float(logits[i, label] - logits[i, k])
            reach = distance_in_the_box(weight[k] - weight[label], gap, images[i].flatten().double(), norm)
            truth[i] = min(truth[i], reach)
    found = unmask.evaluate(model, images, labels, {"a": unmask.attack("fmn", steps=150)}, [1.0], norm)
    ratio = found.distance.values.squeeze() / truth
    assert np.isfinite(truth).all() and np.isfinite(ratio).all()
    assert ratio.min() > 1 - 1e-6
    assert ratio.max() < (1.02 if classes == 2 else more), ratio.max()
    assert np.median(ratio) < 1.02
