"""The attacks of CleverHans (its torch part) that search in an lp norm."""

from __future__ import annotations

from unmask_plugins.adapters.listed import papers
from unmask_plugins.adapters.listing import EVERY_NORM, Listed

__all__ = ["ATTACKS"]

ATTACKS = (
    Listed(
        "fast_gradient_method", "One gradient step of size epsilon.", papers.FGSM, EVERY_NORM, targeted=True
    ),
    Listed(
        "projected_gradient_descent",
        "Projected gradient descent.",
        papers.PGD,
        ("linf", "l2"),
        targeted=True,
        relative={"eps_iter": 1 / 10},
        defaults={"nb_iter": 40},
    ),
    Listed(
        "sparse_l1_descent",
        "Steps along the largest gradients only.",
        papers.SPARSE_L1,
        ("l1",),
        targeted=True,
        relative={"eps_iter": 1 / 10},
    ),
    Listed(
        "spsa",
        "Gradients estimated from random directions.",
        papers.SPSA,
        ("linf", "l2"),
        "scores",
        targeted=True,
        defaults={"nb_iter": 40},
    ),
    Listed(
        "carlini_wagner_l2",
        "Adam on distance and margin, their weight found by bisection.",
        papers.CARLINI_WAGNER,
        ("l2",),
        search="nearest",
        targeted=True,
    ),
    Listed(
        "hop_skip_jump_attack",
        "Jumps along the boundary's normal, estimated from predicted classes.",
        papers.HOP_SKIP_JUMP,
        ("linf", "l2"),
        "labels",
        "nearest",
    ),
)
