"""The built-in ensembles, offered through the same hook as anybody's."""

from __future__ import annotations

from collections.abc import Iterable

from unmask.entries import EnsembleEntry
from unmask.markers import hookimpl
from unmask_plugins.registration.citations import CURIOUS_CASE

__all__ = ["unmask_ensembles"]


@hookimpl
def unmask_ensembles() -> Iterable[EnsembleEntry]:
    """Models made of models."""
    return [
        EnsembleEntry(
            name="randomized",
            summary="Each query is answered by one member, drawn anew for every sample.",
            reference=f"{CURIOUS_CASE}, section 3; Pinot et al. 2020, Randomization Matters, "
            "arXiv:2002.11565",
            build="unmask_plugins.ensembles.randomized:randomized",
        ),
        EnsembleEntry(
            name="mean-logits",
            summary="The mean of the members' logits.",
            reference="Tramer, Carlini, Brendel and Madry 2020, On Adaptive Attacks to Adversarial Example "
            "Defenses, arXiv:2002.08347 (evaluates such ensembles)",
            build="unmask_plugins.ensembles.averaging:MeanLogits",
        ),
        EnsembleEntry(
            name="mean-probabilities",
            summary="The mean of the members' softmax probabilities.",
            reference="Lakshminarayanan, Pritzel and Blundell 2017, Simple and Scalable Predictive "
            "Uncertainty Estimation using Deep Ensembles, arXiv:1612.01474",
            build="unmask_plugins.ensembles.averaging:MeanProbabilities",
        ),
        EnsembleEntry(
            name="majority",
            summary="Every member votes for its most likely class; the logits are the votes.",
            reference="Hansen and Salamon 1990, Neural Network Ensembles, doi:10.1109/34.58871",
            build="unmask_plugins.ensembles.majority:Majority",
        ),
        EnsembleEntry(
            name="mixing",
            summary="The probabilities of an accurate and a robust model, mixed.",
            reference="Bai, Anderson and Sojoudi 2024, Mixing Classifiers to Alleviate the "
            "Accuracy-Robustness Trade-Off, arXiv:2311.15165",
            build="unmask_plugins.ensembles.mixing:Mixing",
        ),
        EnsembleEntry(
            name="dropout-at-test",
            summary="One model whose dropout is not switched off at test time.",
            reference="Wang et al. 2018, Defensive Dropout for Hardening Deep Neural Networks under "
            "Adversarial Attacks, arXiv:1809.05165",
            build="unmask_plugins.ensembles.dropout_at_test:DropoutAtTest",
        ),
        EnsembleEntry(
            name="noise-layers",
            summary="One model with Gaussian noise before every convolution (RSE).",
            reference="Liu, Cheng, Zhang and Hsieh 2018, Towards Robust Neural Networks via Random "
            "Self-ensemble, arXiv:1712.00673",
            build="unmask_plugins.ensembles.noise_layers:NoiseLayers",
        ),
        EnsembleEntry(
            name="random-normalization",
            summary="One model whose normalisation layers are drawn from several kinds (RNA).",
            reference="Dong, Chen, Wang and Xu 2022, Random Normalization Aggregation for Adversarial "
            "Defense, NeurIPS 2022",
            build="unmask_plugins.ensembles.random_normalization:RandomNormalization",
        ),
        EnsembleEntry(
            name="random-precision",
            summary="One model quantised to a precision that is drawn for every query (RPI).",
            reference="Fu, Yu, Li, Chan, Chandra and Lin 2021, Double-Win Quant: Aggressively Winning "
            "Robustness of Quantized Deep Neural Networks via Random Precision Training and Inference, ICML "
            "2021",
            build="unmask_plugins.ensembles.random_precision:random_precision",
        ),
        EnsembleEntry(
            name="keyed-transform",
            summary="Each member sees the images through a permutation or sign flip that a secret key fixes.",
            reference="Taran, Rezaeifar and Voloshynovskiy 2018, Bridging machine learning and cryptography "
            "in defence against adversarial attacks, arXiv:1809.01715; Taran, Rezaeifar, Holotyak and "
            "Voloshynovskiy 2019, arXiv:1904.00689",
            build="unmask_plugins.ensembles.keyed_transform:KeyedTransform",
        ),
    ]
