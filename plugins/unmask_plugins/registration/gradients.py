"""The built-in gradient sources, offered through the same hook as anybody's."""

from __future__ import annotations

from collections.abc import Iterable

from unmask.entries import GradientEntry
from unmask.markers import hookimpl
from unmask_plugins.registration.citations import CURIOUS_CASE

__all__ = ["unmask_gradients"]


@hookimpl
def unmask_gradients() -> Iterable[GradientEntry]:
    """Where a search gets its direction from."""
    return [
        GradientEntry(
            name="autograd",
            summary="The exact gradient of the whole model, by backpropagation.",
            reference="Rumelhart, Hinton and Williams 1986, Learning representations by "
            "back-propagating errors",
            build="unmask_plugins.gradients.autograd:Autograd",
        ),
        GradientEntry(
            name="bypass",
            summary="Forward through the whole model, backward past the front end (BPDA).",
            reference="Athalye, Carlini and Wagner 2018, Obfuscated Gradients Give a False Sense of "
            "Security, arXiv:1802.00420, section 4.1",
            build="unmask_plugins.gradients.bypass:Bypass",
        ),
        GradientEntry(
            name="finite-difference",
            summary="A zero-order estimate from the logits alone: differences of the loss over "
            "groups of pixels.",
            reference="Chen et al. 2017, ZOO, arXiv:1708.03999, and Bhagoji et al. 2018, Practical "
            f"Black-box Attacks on Deep Neural Networks (grouped pixels); {CURIOUS_CASE}",
            build="unmask_plugins.gradients.finite_difference:FiniteDifference",
            access="scores",
        ),
        GradientEntry(
            name="spsa",
            summary="A zero-order estimate from the logits alone: differences along random signs.",
            reference="Spall 1992, Multivariate stochastic approximation using a simultaneous perturbation "
            "gradient approximation; Uesato, O'Donoghue, van den Oord and Kohli 2018, Adversarial Risk and "
            "the "
            "Dangers of Evaluating Against Weak Attacks, arXiv:1802.05666",
            build="unmask_plugins.gradients.spsa:SPSA",
            access="scores",
        ),
        GradientEntry(
            name="nes",
            summary="A zero-order estimate from the logits alone: differences along random normal "
            "directions.",
            reference="Ilyas, Engstrom, Athalye and Lin 2018, Black-box Adversarial Attacks with Limited "
            "Queries "
            "and Information, arXiv:1804.08598; Wierstra et al. 2014, Natural Evolution Strategies",
            build="unmask_plugins.gradients.nes:NES",
            access="scores",
        ),
        GradientEntry(
            name="eot",
            summary="The mean of another gradient source over draws of a randomised model.",
            reference="Athalye, Engstrom, Ilyas and Kwok 2018, Synthesizing Robust Adversarial Examples, "
            "arXiv:1707.07397",
            build="unmask_plugins.gradients.expectation:ExpectationOverTransformation",
        ),
    ]
