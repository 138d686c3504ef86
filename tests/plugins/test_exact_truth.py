"""Attacks against the exact truth: a small trained ReLU network, whose linf distances a solver knows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from torch import nn

import unmask
from unmask import components

SAMPLES = 24
HIDDEN = 12


@pytest.fixture(scope="module")
def problem():
    """The network, and the first test images that it classifies right."""
    train, test = components.data("digits", split="train"), components.data("digits")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
        optimiser = torch.optim.Adam(model.parameters(), 1e-2)
        for _ in range(25):
            for rows in torch.randperm(len(train)).split(64):
                optimiser.zero_grad()
                nn.functional.cross_entropy(model(train.images[rows]), train.labels[rows]).backward()
                optimiser.step()
    model.eval()
    with torch.no_grad():
        right = (model(test.images).argmax(1) == test.labels).nonzero().squeeze(1)[:SAMPLES]
    return model, test.images[right], test.labels[right]


def nearest(model: nn.Sequential, image: np.ndarray, label: int, cap: float) -> float:
    """The smallest linf distance, at most `cap`, at which another class has a logit as large as the label's.

    One mixed-integer program for each class (Tjeng, Xiao & Tedrake 2019, section 4.1): x' in [0, 1], t, the
    hidden units z = max(W x' + b, 0) and which of them are active. What a unit can be within `cap` bounds it.
    """
    first, second = model[1], model[3]
    w, b = (p.detach().double().numpy() for p in (first.weight, first.bias))
    v, c = (p.detach().double().numpy() for p in (second.weight, second.bias))
    d, h = len(image), len(b)
    low_x, high_x = np.maximum(image - cap, 0), np.minimum(image + cap, 1)
    low = np.where(w > 0, w * low_x, w * high_x).sum(1) + b
    high = np.where(w > 0, w * high_x, w * low_x).sum(1) + b
    one, none = np.eye(h), np.zeros
    #             x'               t                z        active
    within = [
        np.hstack([np.eye(d), -np.ones((d, 1)), none((d, 2 * h))]),  # x' - t <= x
        np.hstack([-np.eye(d), -np.ones((d, 1)), none((d, 2 * h))]),  # -x' - t <= -x
        np.hstack([w, none((h, 1)), -one, none((h, h))]),  # W x' - z <= -b
        np.hstack([-w, none((h, 1)), one, -one * np.minimum(low, 0)]),  # z <= W x' + b - low (1 - active)
        np.hstack([none((h, d + 1)), one, -one * np.maximum(high, 0)]),  # z <= high active
    ]
    limits = np.concatenate([image, -image, -b, b - np.minimum(low, 0), none(h)])
    cost = none(d + 1 + 2 * h)
    cost[d] = 1
    best = cap
    for k in range(len(c)):
        if k == label:
            continue
        ahead = np.concatenate([none(d + 1), v[label] - v[k], none(h)])
        found = milp(
            cost,
            constraints=[
                LinearConstraint(np.vstack(within), ub=limits),
                LinearConstraint(ahead, ub=c[k] - c[label]),
            ],
            integrality=np.concatenate([none(d + 1 + h), np.ones(h)]),
            bounds=Bounds(
                np.concatenate([low_x, none(1), none(h), none(h)]),
                np.concatenate([high_x, [best], np.maximum(high, 0), np.ones(h)]),
            ),
            options={"mip_rel_gap": 1e-9},
        )
        assert found.status in (0, 2), found.message
        if found.status == 0:
            best = min(best, found.fun)
    return best


NEAREST = {
    "fab": {"steps": 30},
    "fab-t": {"steps": 30},
    "deepfool": {},
    "fmn": {"steps": 100},
    "hop-skip-jump": {"steps": 6, "tries": 100},
}
"""Searches for the closest example, and how far off the typical one may be (the mean of distance / truth)."""
RATIO = {"fab": 1.05, "fab-t": 1.02, "deepfool": 1.05, "fmn": 1.1, "hop-skip-jump": 2.0}

WITHIN = {
    "fgsm": {},
    "pgd": {"steps": 20},
    "apgd-ce": {"use": "apgd", "steps": 30},
    "apgd-dlr": {"use": "apgd", "steps": 30, "loss": "dlr"},
    "apgd-t": {"use": "apgd", "steps": 30, "loss": "dlr", "targets": 9},
    "square": {"queries": 200},
    "zero-order": {"use": "pgd", "steps": 5, "gradient": {"use": "finite-difference"}},
    "suite": {"use": "autoattack"},
}

ROUNDING = 1e-5
"""The solver's tolerance, and the last bits of float32 logits at the boundary."""


@pytest.fixture(scope="module")
def truth(problem):
    """What the nearest searches find, and the exact distances.

    The solver looks no farther than a little beyond the closest example that was found, which makes it fast
    and takes nothing from its answer: it could only be closer.
    """
    model, images, labels = problem
    attacks = {name: unmask.attack(name, **options) for name, options in NEAREST.items()}
    found = unmask.evaluate({"m": model}, images, labels, attacks, [1.0])
    assert (found.message == "").all()
    distances = found.distance.values[0, :, 0]
    caps = np.minimum(distances.min(0) * 1.001 + 1e-4, 1.0)
    flat = images.flatten(1).double().numpy()
    exact = np.array([nearest(model, x, int(y), cap) for x, y, cap in zip(flat, labels, caps, strict=True)])
    assert (exact < caps).all()
    return dict(zip(found.attack.values.tolist(), distances, strict=True)), exact


def test_no_search_claims_less_than_the_exact_distance(truth):
    found, exact = truth
    assert len(exact) >= 20
    for name, distances in found.items():
        assert (distances >= exact - ROUNDING).all(), name
        assert (distances / exact).mean() <= RATIO[name], name


@pytest.mark.slow
def test_the_suite_leaves_what_the_exact_solver_leaves(problem, truth):
    model, images, labels = problem
    exact = np.sort(truth[1])
    # Between two distances each, a quarter, half and three quarters of the way up.
    radii = [
        float(exact[k - 1 : k + 1].mean()) for k in (len(exact) // 4, len(exact) // 2, 3 * len(exact) // 4)
    ]
    attacks = {
        name: unmask.attack(options.get("use", name), **{k: v for k, v in options.items() if k != "use"})
        for name, options in WITHIN.items()
    }
    found = unmask.evaluate({"m": model}, images, labels, attacks, radii)
    assert (found.message == "").all()
    for radius in radii:
        robust = truth[1] > radius
        assert 0 < robust.sum() < len(robust)
        standing = found.correct.sel(epsilon=radius)
        for name in found.attack.values:
            broken = standing.sel(attack=name).values[0] == 0
            assert (truth[1][broken] <= radius + ROUNDING).all(), f"{name} breaks what cannot be broken"
        assert abs(int(standing.sel(attack="suite").sum()) - int(robust.sum())) <= 1
