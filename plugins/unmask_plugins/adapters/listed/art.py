"""The attacks of ART (Adversarial Robustness Toolbox) on image classifiers that search in an lp norm."""

from __future__ import annotations

from unmask_plugins.adapters.listed import papers
from unmask_plugins.adapters.listing import EVERY_NORM, Listed

__all__ = ["ATTACKS"]

LINF, L2 = ("linf",), ("l2",)
THIRD = {"eps_step": 1 / 3}

ATTACKS = (
    Listed(
        "FastGradientMethod",
        "One gradient step of size epsilon.",
        papers.FGSM,
        EVERY_NORM,
        targeted=True,
        relative=THIRD,
    ),
    Listed(
        "BasicIterativeMethod",
        "Iterated gradient steps from the image.",
        papers.BIM,
        LINF,
        targeted=True,
        relative=THIRD,
    ),
    *(
        Listed(name, "Projected gradient descent.", papers.PGD, EVERY_NORM, targeted=True, relative=THIRD)
        for name in (
            "ProjectedGradientDescent",
            "ProjectedGradientDescentPyTorch",
            "ProjectedGradientDescentNumpy",
        )
    ),
    Listed(
        "MomentumIterativeMethod",
        "Gradient steps with momentum.",
        papers.MIFGSM,
        EVERY_NORM,
        targeted=True,
        relative=THIRD,
    ),
    Listed(
        "AutoProjectedGradientDescent",
        "PGD that chooses its step size itself.",
        papers.APGD,
        EVERY_NORM,
        targeted=True,
        relative=THIRD,
    ),
    Listed(
        "AutoConjugateGradient",
        "Conjugate gradients with a step size of their own.",
        "Yamamura et al. 2022, Diversified Adversarial Attacks based on Conjugate Gradient, arXiv:2206.09628",
        EVERY_NORM,
        targeted=True,
        relative=THIRD,
    ),
    Listed(
        "AutoAttack",
        "APGD with two losses, DeepFool and Square, one after the other.",
        papers.APGD,
        ("linf", "l2"),
        needs="multiprocess",
        relative=THIRD,
    ),
    Listed(
        "SquareAttack", "Random search with squares that shrink.", papers.SQUARE, ("linf", "l2"), "scores"
    ),
    Listed(
        "VirtualAdversarialMethod",
        "The direction in which the predicted distribution changes most.",
        papers.VIRTUAL,
        L2,
        "scores",
    ),
    Listed(
        "CarliniL2Method",
        "Adam on distance and margin, their weight found by bisection.",
        papers.CARLINI_WAGNER,
        L2,
        search="nearest",
        targeted=True,
    ),
    Listed(
        "CarliniLInfMethod",
        "Adam on margin and excess, with a bound that shrinks.",
        papers.CARLINI_WAGNER,
        LINF,
        search="nearest",
        targeted=True,
    ),
    Listed(
        "DeepFool",
        "The nearest boundary of the linearised classifier, again and again.",
        papers.DEEPFOOL,
        L2,
        search="nearest",
    ),
    Listed(
        "ElasticNet",
        "Proximal gradient steps on an elastic-net distance.",
        papers.ELASTIC_NET,
        ("l2", "l1"),
        search="nearest",
        targeted=True,
    ),
    Listed(
        "NewtonFool",
        "Newton steps on the probability of the predicted class.",
        papers.NEWTON_FOOL,
        L2,
        search="nearest",
    ),
    Listed(
        "ZooAttack",
        "Carlini and Wagner's attack on estimated gradients.",
        "Chen et al. 2017, ZOO: Zeroth Order Optimization, arXiv:1708.03999",
        L2,
        "scores",
        "nearest",
        targeted=True,
    ),
    Listed(
        "SimBA",
        "Steps along single pixels or frequencies, kept where they help.",
        "Guo et al. 2019, Simple Black-box Adversarial Attacks, arXiv:1905.07121",
        L2,
        "scores",
        "nearest",
    ),
    Listed(
        "BoundaryAttack",
        "A random walk along the boundary that sees predicted classes only.",
        papers.BOUNDARY,
        L2,
        "labels",
        "nearest",
    ),
    Listed(
        "HopSkipJump",
        "Jumps along the boundary's normal, estimated from predicted classes.",
        papers.HOP_SKIP_JUMP,
        ("linf", "l2"),
        "labels",
        "nearest",
    ),
    Listed(
        "SignOPTAttack",
        "The direction of the nearest boundary, by the signs of differences.",
        "Cheng et al. 2020, Sign-OPT, arXiv:1909.10773",
        L2,
        "labels",
        "nearest",
    ),
)
