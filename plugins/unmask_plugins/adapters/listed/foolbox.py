"""The attacks of Foolbox that search in an lp norm."""

from __future__ import annotations

from unmask_plugins.adapters.listed import papers
from unmask_plugins.adapters.listing import EVERY_NORM, Listed

__all__ = ["ATTACKS"]

FOOLBOX = "Rauber et al. 2020, Foolbox Native, doi:10.21105/joss.02607"
BRENDEL_BETHGE = "Brendel et al. 2019, Accurate, reliable and fast robustness evaluation, arXiv:1907.01003"
LINF, L2, L1 = ("linf",), ("l2",), ("l1",)

ATTACKS = (
    *(
        attack
        for norm, prefix, short_pgd, short_adam, short_fgm, short_momentum in (
            (LINF, "Linf", "LinfPGD PGD", "LinfAdamPGD AdamPGD", "FGSM", "MIFGSM"),
            (L2, "L2", "L2PGD", "L2AdamPGD", "FGM", ""),
            (L1, "L1", "L1PGD", "L1AdamPGD", "", ""),
        )
        for attack in (
            Listed(
                f"{short_pgd} {prefix}ProjectedGradientDescentAttack",
                "Projected gradient descent from a random start.",
                papers.PGD,
                norm,
                targeted=True,
            ),
            Listed(
                f"{short_adam} {prefix}AdamProjectedGradientDescentAttack",
                "Projected gradient descent with Adam's steps, from a random start.",
                papers.PGD,
                norm,
                targeted=True,
            ),
            Listed(
                f"{prefix}BasicIterativeAttack",
                "Iterated gradient steps from the image itself.",
                papers.BIM,
                norm,
                targeted=True,
            ),
            Listed(
                f"{prefix}AdamBasicIterativeAttack",
                "Iterated steps of Adam from the image itself.",
                papers.BIM,
                norm,
                targeted=True,
            ),
            Listed(
                f"{short_momentum} {prefix}MomentumIterativeFastGradientMethod",
                "Iterated gradient steps with momentum.",
                papers.MIFGSM,
                norm,
                targeted=True,
            ),
            Listed(
                f"{short_fgm} {prefix}FastGradientAttack",
                "One gradient step of size epsilon.",
                papers.FGSM,
                norm,
            ),
        )
    ),
    Listed(
        "SparseL1DescentAttack",
        "Steps along the largest gradients only.",
        papers.SPARSE_L1,
        L1,
        targeted=True,
    ),
    Listed(
        "VirtualAdversarialAttack",
        "The direction in which the predicted distribution changes most.",
        papers.VIRTUAL,
        L2,
        defaults={"steps": 10},
    ),
    Listed("L2ContrastReductionAttack", "Less contrast, as far as epsilon allows.", FOOLBOX, L2, "scores"),
    *(
        Listed(
            f"{prefix}Additive{noise}NoiseAttack", f"{noise} noise of size epsilon.", FOOLBOX, norm, "scores"
        )
        for norm, prefix, noise in (
            (LINF, "Linf", "Uniform"),
            (L2, "L2", "Gaussian"),
            (L2, "L2", "Uniform"),
            (L2, "L2ClippingAware", "Gaussian"),
            (L2, "L2ClippingAware", "Uniform"),
        )
    ),
    *(
        Listed(
            f"{prefix}RepeatedAdditive{noise}NoiseAttack",
            f"{noise} noise of size epsilon, drawn again and again.",
            FOOLBOX,
            norm,
            "scores",
        )
        for norm, prefix, noise in (
            (LINF, "Linf", "Uniform"),
            (L2, "L2", "Gaussian"),
            (L2, "L2", "Uniform"),
            (L2, "L2ClippingAware", "Gaussian"),
            (L2, "L2ClippingAware", "Uniform"),
        )
    ),
    Listed(
        "L2CarliniWagnerAttack",
        "Adam on distance and margin, their weight found by bisection.",
        papers.CARLINI_WAGNER,
        L2,
        search="nearest",
        targeted=True,
    ),
    Listed(
        "L2DeepFoolAttack",
        "The nearest boundary of the linearised classifier, again and again.",
        papers.DEEPFOOL,
        L2,
        search="nearest",
    ),
    Listed(
        "LinfDeepFoolAttack",
        "The nearest boundary of the linearised classifier, again and again.",
        papers.DEEPFOOL,
        LINF,
        search="nearest",
    ),
    Listed(
        "DDNAttack",
        "Gradient steps in a ball that shrinks and grows.",
        papers.DDN,
        L2,
        search="nearest",
        targeted=True,
    ),
    Listed(
        "EADAttack",
        "Proximal gradient steps on an elastic-net distance.",
        papers.ELASTIC_NET,
        L1,
        search="nearest",
        targeted=True,
    ),
    *(
        Listed(
            f"{prefix}FMNAttack",
            "Projected gradient steps in a ball whose radius adapts to every sample.",
            papers.FMN,
            norm,
            search="nearest",
            targeted=True,
        )
        for norm, prefix in ((LINF, "LInf"), (L2, "L2"), (L1, "L1"))
    ),
    Listed(
        "NewtonFoolAttack",
        "Newton steps on the probability of the predicted class.",
        papers.NEWTON_FOOL,
        L2,
        search="nearest",
    ),
    *(
        Listed(
            f"{prefix}BrendelBethgeAttack",
            "Along the boundary by gradients, from a far adversarial start.",
            BRENDEL_BETHGE,
            norm,
            search="nearest",
            needs="numba",
        )
        for norm, prefix in ((LINF, "Linfinity"), (L2, "L2"), (L1, "L1"))
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
        "HopSkipJumpAttack",
        "Jumps along the boundary's normal, estimated from predicted classes.",
        papers.HOP_SKIP_JUMP,
        ("linf", "l2"),
        "labels",
        "nearest",
    ),
    Listed(
        "SaltAndPepperNoiseAttack", "More and more black and white pixels.", FOOLBOX, L2, "labels", "nearest"
    ),
    Listed(
        "LinearSearchBlendedUniformNoiseAttack",
        "Blends the image with uniform noise.",
        FOOLBOX,
        EVERY_NORM,
        "labels",
        "nearest",
    ),
    Listed(
        "BinarySearchContrastReductionAttack",
        "The least loss of contrast, by bisection.",
        FOOLBOX,
        EVERY_NORM,
        "labels",
        "nearest",
    ),
    Listed(
        "LinearSearchContrastReductionAttack",
        "The least loss of contrast, step by step.",
        FOOLBOX,
        EVERY_NORM,
        "labels",
        "nearest",
    ),
    Listed("GaussianBlurAttack", "The least blur.", FOOLBOX, EVERY_NORM, "labels", "nearest"),
    Listed("InversionAttack", "The negative of the image.", FOOLBOX, EVERY_NORM, "labels", "nearest"),
)
