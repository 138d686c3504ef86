"""The attacks of torchattacks that search in an lp norm."""

from __future__ import annotations

from unmask_plugins.adapters.listed import papers
from unmask_plugins.adapters.listing import Listed

__all__ = ["ATTACKS"]

LINF, L2, L1 = ("linf",), ("l2",), ("l1",)
QUARTER = {"alpha": 1 / 4}
RANDOMISED_SMOOTHING = "Salman et al. 2019, Provably Robust Deep Learning, arXiv:1906.04584"

ATTACKS = (
    Listed("FGSM", "One gradient step of size epsilon.", papers.FGSM, LINF, targeted=True),
    Listed(
        "BIM", "Iterated gradient steps from the image.", papers.BIM, LINF, targeted=True, relative=QUARTER
    ),
    Listed(
        "RFGSM",
        "A random step, then gradient steps.",
        "Tramèr et al. 2018, Ensemble Adversarial Training, arXiv:1705.07204",
        LINF,
        targeted=True,
        relative=QUARTER,
    ),
    Listed("PGD", "Projected gradient descent.", papers.PGD, LINF, targeted=True, relative=QUARTER),
    Listed(
        "EOTPGD",
        "Projected gradient descent along gradients averaged over draws.",
        "Liu et al. 2019, Adv-BNN, arXiv:1810.01279",
        LINF,
        targeted=True,
        relative=QUARTER,
    ),
    Listed(
        "FFGSM",
        "One step from a random start.",
        "Wong, Rice and Kolter 2020, Fast is better than free, arXiv:2001.03994",
        LINF,
        targeted=True,
        relative={"alpha": 10 / 8},
    ),
    Listed(
        "TPGD",
        "Projected gradient descent on the divergence from the clean prediction.",
        "Zhang et al. 2019, TRADES, arXiv:1901.08573",
        LINF,
        relative=QUARTER,
    ),
    Listed("MIFGSM", "Gradient steps with momentum.", papers.MIFGSM, LINF, targeted=True, relative=QUARTER),
    Listed(
        "UPGD",
        "Projected gradient descent with a choice of loss, momentum and averaging.",
        papers.PGD,
        LINF,
        targeted=True,
        relative=QUARTER,
    ),
    Listed("APGD", "PGD that chooses its step size itself.", papers.APGD, ("linf", "l2")),
    Listed("APGDT", "The same towards other classes.", papers.APGD, ("linf", "l2")),
    Listed(
        "DIFGSM",
        "Gradient steps at randomly resized images.",
        "Xie et al. 2019, Improving Transferability with Input Diversity, arXiv:1803.06978",
        LINF,
        targeted=True,
        relative=QUARTER,
    ),
    Listed(
        "TIFGSM",
        "Gradient steps with blurred gradients.",
        "Dong et al. 2019, Translation-Invariant Attacks, arXiv:1904.02884",
        LINF,
        targeted=True,
        relative=QUARTER,
    ),
    Listed(
        "Jitter",
        "Projected gradient descent on noisy, rescaled logits.",
        "Schwinn et al. 2021, Exploring Misclassifications of Robust Neural Networks, arXiv:2105.10304",
        LINF,
        targeted=True,
        relative=QUARTER,
    ),
    Listed(
        "NIFGSM",
        "Gradient steps with Nesterov's momentum.",
        "Lin et al. 2020, Nesterov Accelerated Gradient and Scale Invariance, arXiv:1908.06281",
        LINF,
        targeted=True,
        relative=QUARTER,
    ),
    Listed(
        "SINIFGSM",
        "The same, averaged over scaled images.",
        "Lin et al. 2020, Nesterov Accelerated Gradient and Scale Invariance, arXiv:1908.06281",
        LINF,
        targeted=True,
        relative=QUARTER,
    ),
    Listed(
        "VMIFGSM",
        "Gradient steps with momentum and tuned variance.",
        "Wang and He 2021, Enhancing Transferability through Variance Tuning, arXiv:2103.15571",
        LINF,
        targeted=True,
        relative=QUARTER,
    ),
    Listed(
        "VNIFGSM",
        "Gradient steps with Nesterov's momentum and tuned variance.",
        "Wang and He 2021, Enhancing Transferability through Variance Tuning, arXiv:2103.15571",
        LINF,
        targeted=True,
        relative=QUARTER,
    ),
    Listed(
        "PGDRS",
        "Projected gradient descent through Gaussian noise.",
        RANDOMISED_SMOOTHING,
        LINF,
        targeted=True,
        relative=QUARTER,
    ),
    Listed(
        "SPSA",
        "Gradients estimated from random directions.",
        papers.SPSA,
        LINF,
        "scores",
        targeted=True,
    ),
    Listed(
        "PIFGSM",
        "Amplified steps, the excess spread over neighbours.",
        "Gao et al. 2020, Patch-wise Attack, arXiv:2007.06765",
        LINF,
    ),
    Listed(
        "PIFGSMPP",
        "Amplified steps, the excess spread over neighbours.",
        "Gao et al. 2020, Patch-wise++ Perturbation, arXiv:2012.15503",
        LINF,
        targeted=True,
    ),
    Listed("PGDL2", "Projected gradient descent.", papers.PGD, L2, targeted=True, relative={"alpha": 0.2}),
    Listed(
        "PGDRSL2",
        "Projected gradient descent through Gaussian noise.",
        RANDOMISED_SMOOTHING,
        L2,
        targeted=True,
        relative={"alpha": 0.2},
    ),
    Listed(
        "CW",
        "Adam on distance and margin with a fixed weight.",
        papers.CARLINI_WAGNER,
        L2,
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
        "EADL1",
        "Proximal gradient steps on an elastic-net distance; the example of least l1.",
        papers.ELASTIC_NET,
        L1,
        search="nearest",
        targeted=True,
    ),
    Listed(
        "EADEN",
        "The same; the example of least elastic-net distance.",
        papers.ELASTIC_NET,
        ("l2", "l1"),
        search="nearest",
        targeted=True,
    ),
    Listed(
        "FAB",
        "The nearest boundary by projections; torchattacks returns what lies within epsilon.",
        papers.FAB,
        ("linf", "l2"),
        targeted=True,
    ),
    Listed("Square", "Random search with squares that shrink.", papers.SQUARE, ("linf", "l2"), "scores"),
    Listed("AutoAttack", "APGD, FAB and Square one after the other.", papers.APGD, ("linf", "l2")),
)
