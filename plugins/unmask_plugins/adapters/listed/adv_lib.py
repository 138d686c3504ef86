"""The attacks of adv-lib (adversarial-library) on classifiers that search in an lp norm."""

from __future__ import annotations

from unmask_plugins.adapters.listed import papers
from unmask_plugins.adapters.listing import EVERY_NORM, Listed

__all__ = ["ATTACKS"]

PRIMAL_DUAL = "Matyasko and Chau 2021, PDPGD: Primal-Dual Proximal Gradient Descent, arXiv:2106.01538"
LINF, L2 = ("linf",), ("l2",)

ATTACKS = (
    Listed("pgd_linf", "Projected gradient descent.", papers.PGD, LINF, targeted=True),
    Listed("apgd", "PGD that chooses its step size itself.", papers.APGD, EVERY_NORM, targeted=True),
    Listed("apgd_targeted", "The same towards other classes.", papers.APGD, EVERY_NORM),
    Listed(
        "fmn",
        "Projected gradient steps in a ball whose radius adapts to every sample.",
        papers.FMN,
        EVERY_NORM,
        search="nearest",
        targeted=True,
    ),
    Listed(
        "ddn",
        "Gradient steps in a ball that shrinks and grows.",
        papers.DDN,
        L2,
        search="nearest",
        targeted=True,
    ),
    Listed(
        "alma",
        "An augmented Lagrangian of distance and margin.",
        "Rony et al. 2021, Augmented Lagrangian Adversarial Attacks, arXiv:2011.11857",
        ("l2", "l1"),
        search="nearest",
        targeted=True,
    ),
    Listed(
        "carlini_wagner_l2",
        "Adam on distance and margin, their weight found by bisection.",
        papers.CARLINI_WAGNER,
        L2,
        search="nearest",
        targeted=True,
    ),
    Listed(
        "carlini_wagner_linf",
        "Adam on margin and excess, with a bound that shrinks.",
        papers.CARLINI_WAGNER,
        LINF,
        search="nearest",
        targeted=True,
    ),
    Listed(
        "df",
        "DeepFool: the nearest boundary of the linearised classifier, again and again.",
        papers.DEEPFOOL,
        ("linf", "l2"),
        search="nearest",
    ),
    Listed(
        "sdf",
        "DeepFool with steps that end orthogonal to the boundary.",
        "Abdollahpoorrostam, Abroshan and Moosavi-Dezfooli 2024, SuperDeepFool, arXiv:2303.12481",
        L2,
        search="nearest",
    ),
    Listed(
        "fab",
        "The nearest boundary by projections.",
        papers.FAB,
        EVERY_NORM,
        search="nearest",
        targeted=True,
    ),
    Listed("pdgd", "Primal and dual gradient steps.", PRIMAL_DUAL, L2, search="nearest", targeted=True),
    Listed(
        "pdpgd",
        "Primal and dual gradient steps with a proximal operator.",
        PRIMAL_DUAL,
        EVERY_NORM,
        search="nearest",
        targeted=True,
    ),
    Listed(
        "tr",
        "Steps inside a trust region, until the border is crossed.",
        "Yao et al. 2019, Trust Region Based Adversarial Attack, arXiv:1812.06371",
        ("linf", "l2"),
        search="nearest",
    ),
)
