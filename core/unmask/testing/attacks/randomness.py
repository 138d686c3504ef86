"""Models that answer at random: scored by their expectation, and no lucky draw ends a search."""

from __future__ import annotations

import numpy as np
import torch

from unmask.dimensions import Status
from unmask.models.randomized import RandomizedEnsemble
from unmask.testing.attacks.setting import AttackSubject, radius
from unmask.testing.known import Coin, Constant, linear_problem
from unmask.testing.laws import require

__all__ = ["CHECKS"]

_REMEDY = (
    "Do not wait for target.broken, which is never set for a randomised model; run a fixed number of steps "
    "or "
    "queries and return one example for every image."
)


def cannot_bend_a_coin(subject: AttackSubject) -> None:
    """A coin that is right with probability p scores p, whatever is thrown at it."""
    images = torch.rand(8, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    labels = torch.zeros(8, dtype=torch.int64)
    results = subject.evaluated(Coin(0.75).eval(), images, labels, [radius(subject.norm, 4)], draws=48)
    require(
        bool((results["correct"] == results["clean_correct"]).all()),
        "it scores otherwise than without an attack against a coin, which ignores its input",
        _REMEDY,
    )
    mixed = RandomizedEnsemble([Constant(1.0, 0.0), Constant(1.0, 0.0), Constant(0.0, 100.0)]).eval()
    exact = subject.evaluated(mixed, images, labels, [radius(subject.norm, 4)])
    require(
        bool((exact["correct"] == 2 / 3).all()),
        "an ensemble that is right with two of its three members scores "
        f"{float(exact['correct'].mean()):.4f}",
        _REMEDY,
    )


def works_on_randomised_models(subject: AttackSubject) -> None:
    """On a randomised model every example stays in ball and box, and accuracy does not rise."""
    models = [linear_problem(seed=seed)[0] for seed in range(3)]
    _, images, labels = linear_problem(n=6)
    mixed = RandomizedEnsemble(models, [0.5, 0.25, 0.25]).eval()
    results = subject.evaluated(mixed, images, labels, [radius(subject.norm, 12)])
    bad = np.isin(
        results["status"].values, (Status.BUDGET_VIOLATION, Status.BOX_VIOLATION, Status.NON_FINITE)
    )
    require(
        not bad.any() and bool((results["correct"] <= results["clean_correct"]).all()),
        f"{int(bad.any((0, 1, 2)).sum())} of 6 final examples against a randomised ensemble are invalid",
        _REMEDY,
    )


CHECKS = (cannot_bend_a_coin, works_on_randomised_models)
