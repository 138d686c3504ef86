"""The built-in attacks and suites, offered through the same hook as anybody's."""

from __future__ import annotations

from collections.abc import Iterable

from unmask.entries import AttackEntry
from unmask.markers import hookimpl
from unmask_plugins.registration.citations import MINIMALLY_DISTORTED, RELIABLE
from unmask_plugins.registration.libraries import attacks_of_libraries

__all__ = ["unmask_attacks"]

EVERY_NORM = ("linf", "l2", "l1")


@hookimpl
def unmask_attacks() -> Iterable[AttackEntry]:
    """Searches for adversarial examples."""
    return [
        AttackEntry(
            name="fgsm",
            summary="One step of size epsilon along the gradient's steepest direction.",
            reference="Goodfellow, Shlens and Szegedy 2015, Explaining and Harnessing Adversarial Examples, "
            "arXiv:1412.6572",
            build="unmask_plugins.attacks.fgsm:FGSM",
            norms=EVERY_NORM,
            access="gradients",
            targeted=True,
        ),
        AttackEntry(
            name="pgd",
            summary="Many small gradient steps from random starts, each projected back into the ball.",
            reference="Madry, Makelov, Schmidt, Tsipras and Vladu 2018, Towards Deep Learning Models "
            "Resistant to Adversarial Attacks, arXiv:1706.06083",
            build="unmask_plugins.attacks.pgd:PGD",
            norms=EVERY_NORM,
            access="gradients",
            targeted=True,
        ),
        AttackEntry(
            name="apgd",
            summary="PGD that chooses its step size itself, away from the label or towards other classes.",
            reference=f"{RELIABLE}; in l1: Croce and Hein 2021, Mind the box: l1-APGD for sparse adversarial "
            "attacks on image classifiers, arXiv:2103.01208",
            build="unmask_plugins.attacks.apgd:APGD",
            norms=EVERY_NORM,
            access="gradients",
            targeted=True,
        ),
        AttackEntry(
            name="fab",
            summary="The nearest adversarial example, by projecting onto linearised class boundaries.",
            reference=MINIMALLY_DISTORTED,
            build="unmask_plugins.attacks.fab:FAB",
            norms=EVERY_NORM,
            access="gradients",
            search="nearest",
            targeted=True,
        ),
        AttackEntry(
            name="fab-t",
            summary="FAB towards one likely class after the other, at the cost of one gradient a step.",
            reference=f"{MINIMALLY_DISTORTED}; its targeted form: {RELIABLE}",
            build="unmask_plugins.attacks.fab:TargetedFAB",
            norms=EVERY_NORM,
            access="gradients",
            search="nearest",
            targeted=True,
        ),
        AttackEntry(
            name="autoattack",
            summary="APGD, FAB and Square one after the other, each on what is left: the field's standard.",
            reference=RELIABLE,
            build="unmask_plugins.attacks.autoattack:AutoAttack",
            norms=EVERY_NORM,
            access="gradients",
            targeted=True,
        ),
        AttackEntry(
            name="square",
            summary="Random search with squares that shrink; sees only the logits, so no gradient can "
            "mislead it.",
            reference="Andriushchenko, Croce, Flammarion and Hein 2020, Square Attack: a query-efficient "
            "black-box adversarial attack via random search, arXiv:1912.00049; l1: Croce and Hein 2021, "
            "Mind the "
            "box, arXiv:2103.01208",
            build="unmask_plugins.attacks.square:Square",
            norms=EVERY_NORM,
            access="scores",
            targeted=True,
        ),
        AttackEntry(
            name="deepfool",
            summary="The nearest boundary of the linearised classifier, again and again until it is crossed.",
            reference="Moosavi-Dezfooli, Fawzi and Frossard 2016, DeepFool: a simple and accurate method "
            "to fool deep "
            "neural networks, arXiv:1511.04599",
            build="unmask_plugins.attacks.deepfool:DeepFool",
            norms=("linf", "l2"),
            access="gradients",
            search="nearest",
            targeted=False,
        ),
        AttackEntry(
            name="carlini-wagner",
            summary="Adam on the distance plus a weighted margin, the weight found by bisection.",
            reference="Carlini and Wagner 2017, Towards Evaluating the Robustness of Neural Networks, "
            "arXiv:1608.04644",
            build="unmask_plugins.attacks.carlini_wagner:CarliniWagner",
            norms=("l2",),
            access="gradients",
            search="nearest",
            targeted=True,
        ),
        AttackEntry(
            name="ddn",
            summary="Gradient steps whose length shrinks where they succeed and grows where they fail.",
            reference="Rony, Hafemann, Oliveira, Ben Ayed, Sabourin and Granger 2019, Decoupling Direction "
            "and Norm for "
            "Efficient Gradient-Based L2 Adversarial Attacks and Defenses, arXiv:1811.09600",
            build="unmask_plugins.attacks.ddn:DDN",
            norms=("l2",),
            access="gradients",
            search="nearest",
            targeted=True,
        ),
        AttackEntry(
            name="fmn",
            summary="Projected gradient steps in a ball whose radius adapts to every sample.",
            reference="Pintor, Roli, Brendel and Biggio 2021, Fast Minimum-norm Adversarial Attacks "
            "through Adaptive Norm "
            "Constraints, arXiv:2102.12827",
            build="unmask_plugins.attacks.fmn:FMN",
            norms=(*EVERY_NORM, "l0"),
            access="gradients",
            search="nearest",
            targeted=True,
        ),
        AttackEntry(
            name="boundary",
            summary="A random walk along the decision boundary that sees nothing but predicted classes.",
            reference="Brendel, Rauber and Bethge 2018, Decision-Based Adversarial Attacks: Reliable "
            "Attacks Against "
            "Black-Box Machine Learning Models, arXiv:1712.04248",
            build="unmask_plugins.attacks.boundary:Boundary",
            norms=("l2",),
            access="labels",
            search="nearest",
            targeted=True,
        ),
        AttackEntry(
            name="hop-skip-jump",
            summary="Jumps along the boundary's normal, estimated from predicted classes alone.",
            reference="Chen, Jordan and Wainwright 2020, HopSkipJumpAttack: A Query-Efficient "
            "Decision-Based Attack, "
            "arXiv:1904.02144",
            build="unmask_plugins.attacks.hop_skip_jump:HopSkipJump",
            norms=("linf", "l2"),
            access="labels",
            search="nearest",
            targeted=True,
        ),
        AttackEntry(
            name="transfer",
            summary="Examples found on another model, tried on this one.",
            reference="Papernot, McDaniel and Goodfellow 2016, Transferability in Machine Learning: from "
            "Phenomena to Black-Box Attacks using Adversarial Samples, arXiv:1605.07277",
            build="unmask_plugins.attacks.transfer:Transfer",
            norms=EVERY_NORM,
            access="transfer",
            targeted=True,
        ),
        *attacks_of_libraries(),
    ]
