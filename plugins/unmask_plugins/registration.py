"""The built-ins, offered through the same hooks as anybody's plugin.

Nothing heavy is imported here: every ``build`` is text, imported when its component is first used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unmask.entries import (
    AttackEntry,
    DataEntry,
    EnsembleEntry,
    FrontEndEntry,
    GradientEntry,
    MetricEntry,
    ModelEntry,
    RecipeEntry,
)
from unmask.markers import hookimpl

__all__ = [
    "unmask_attacks",
    "unmask_data",
    "unmask_ensembles",
    "unmask_front_ends",
    "unmask_gradients",
    "unmask_kernels",
    "unmask_metrics",
    "unmask_models",
    "unmask_recipes",
]

EVERY_NORM = ("linf", "l2", "l1")

CURIOUS_CASE = (
    "Boytsov, Joshi and Condessa 2025, A Curious Case of Remarkable Resilience to Gradient Attacks via Fully "
    "Convolutional and Differentiable Front End with a Skip Connection, arXiv:2402.17018"
)

RELIABLE = (
    "Croce and Hein 2020, Reliable Evaluation of Adversarial Robustness with an Ensemble of Diverse "
    "Parameter-free Attacks, arXiv:2003.01690"
)

MINIMALLY_DISTORTED = (
    "Croce and Hein 2020, Minimally Distorted Adversarial Examples with a Fast Adaptive Boundary Attack, "
    "arXiv:1907.02044"
)


@hookimpl
def unmask_models() -> Iterable[ModelEntry]:
    """Classifiers."""
    return [
        ModelEntry(
            name="small-cnn",
            summary="Three convolutions and a linear layer for small images, trained in seconds.",
            reference="LeCun et al. 1998, Gradient-based learning applied to document recognition (the kind "
            "of network); Ioffe and Szegedy 2015, arXiv:1502.03167 (batch normalisation)",
            build="unmask_plugins.models.small_cnn:SmallCNN",
            recipe={"use": "standard", "rate": 0.01, "shift": 1, "noise": 0.12},
        ),
        ModelEntry(
            name="module",
            summary="A model of your own: whatever the function 'package.module:callable' returns.",
            reference="torch.nn.Module, https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html",
            build="unmask_plugins.models.module:module",
        ),
        ModelEntry(
            name="cifar-resnet",
            summary="ResNet for small images: ResNet-18 to -152 with a 3 x 3 stem, or ResNet-20 to -110.",
            reference="He, Zhang, Ren and Sun 2016, Deep Residual Learning for Image Recognition, "
            "arXiv:1512.03385, table 1 and section 4.2",
            build="unmask_plugins.models.cifar_resnet:CifarResNet",
            recipe={"use": "standard"},
        ),
        ModelEntry(
            name="wide-resnet",
            summary="WideResNet for small images, such as WRN-28-10.",
            reference="Zagoruyko and Komodakis 2016, Wide Residual Networks, arXiv:1605.07146",
            build="unmask_plugins.models.wide_resnet:WideResNet",
            recipe={"use": "standard"},
        ),
        ModelEntry(
            name="timm",
            summary="Any classifier of timm, with its own normalisation and input size inside.",
            reference="Wightman 2019, PyTorch Image Models, doi:10.5281/zenodo.4414861",
            build="unmask_plugins.models.timm_zoo:timm_model",
            recipe={"use": "standard"},
        ),
        ModelEntry(
            name="torchvision",
            summary="Any classifier of torchvision, with its own normalisation and input size inside.",
            reference="TorchVision maintainers 2016, https://github.com/pytorch/vision",
            build="unmask_plugins.models.torchvision_zoo:torchvision_model",
            recipe={"use": "standard"},
        ),
        ModelEntry(
            name="torchscript",
            summary="A classifier that torch.jit.save wrote.",
            reference="https://docs.pytorch.org/docs/stable/jit.html",
            build="unmask_plugins.models.programs:torchscript",
        ),
        ModelEntry(
            name="torch-export",
            summary="A classifier that torch.export.save wrote.",
            reference="https://docs.pytorch.org/docs/stable/export.html",
            build="unmask_plugins.models.programs:exported",
        ),
    ]


@hookimpl
def unmask_front_ends() -> Iterable[FrontEndEntry]:
    """What stands before a classifier."""
    return [
        FrontEndEntry(
            name="dncnn",
            summary="The denoiser DnCNN: subtracts a residual that a deep stack of convolutions computes.",
            reference="Zhang, Zuo, Chen, Meng and Zhang 2017, Beyond a Gaussian Denoiser: Residual Learning "
            f"of Deep CNN for Image Denoising, arXiv:1608.03981; as a front end: {CURIOUS_CASE}",
            build="unmask_plugins.front_ends.dncnn:DnCNN",
            recipe={"use": "front-end"},
        ),
        FrontEndEntry(
            name="identity",
            summary="The images as they are: the control beside every other front end.",
            reference="none",
            build="unmask_plugins.front_ends.identity:Identity",
        ),
        FrontEndEntry(
            name="jpeg",
            summary="JPEG compression; the identity stands for it in the backward pass.",
            reference="Guo, Rana, Cisse and van der Maaten 2018, Countering Adversarial Images using Input "
            "Transformations, arXiv:1711.00117",
            build="unmask_plugins.front_ends.jpeg:JPEG",
            differentiable=False,
        ),
        FrontEndEntry(
            name="bit-depth",
            summary="Fewer bits per pixel; the identity stands for it in the backward pass.",
            reference="Xu, Evans and Qi 2018, Feature Squeezing, arXiv:1704.01155",
            build="unmask_plugins.front_ends.bit_depth:BitDepth",
            differentiable=False,
        ),
        FrontEndEntry(
            name="gaussian-noise",
            summary="Gaussian noise on every pixel, drawn anew at every call; its Jacobian is the identity.",
            reference="Cohen, Rosenfeld and Kolter 2019, Certified Adversarial Robustness via Randomized "
            "Smoothing, arXiv:1902.02918",
            build="unmask_plugins.front_ends.gaussian_noise:GaussianNoise",
            stochastic=True,
        ),
        FrontEndEntry(
            name="random-resize-pad",
            summary="A random size and random zero padding for every image; the mean size stands for it in "
            "the backward pass.",
            reference="Xie, Wang, Zhang, Ren and Yuille 2018, Mitigating Adversarial Effects Through "
            "Randomization, arXiv:1711.01991",
            build="unmask_plugins.front_ends.random_resize_pad:RandomResizePad",
            stochastic=True,
            surrogate="unmask_plugins.front_ends.random_resize_pad:mean_resize",
        ),
        FrontEndEntry(
            name="median",
            summary="The median of a window round every pixel; its mean stands for it in the backward pass.",
            reference="Xu, Evans and Qi 2018, Feature Squeezing, arXiv:1704.01155",
            build="unmask_plugins.front_ends.median:Median",
            surrogate="unmask_plugins.front_ends.median:mean_filter",
        ),
        FrontEndEntry(
            name="total-variation",
            summary="The image of least total variation through a random half of the pixels; the identity "
            "stands for it in the backward pass.",
            reference="Guo, Rana, Cisse and van der Maaten 2018, Countering Adversarial Images using Input "
            "Transformations, arXiv:1711.00117, section 3; Chambolle and Pock 2011, "
            "doi:10.1007/s10851-010-0251-1",
            build="unmask_plugins.front_ends.total_variation:TotalVariation",
            stochastic=True,
        ),
    ]


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
            build="unmask_plugins.ensembles.mean_logits:MeanLogits",
        ),
        EnsembleEntry(
            name="mean-probabilities",
            summary="The mean of the members' softmax probabilities.",
            reference="Lakshminarayanan, Pritzel and Blundell 2017, Simple and Scalable Predictive "
            "Uncertainty Estimation using Deep Ensembles, arXiv:1612.01474",
            build="unmask_plugins.ensembles.mean_probabilities:MeanProbabilities",
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
            norms=EVERY_NORM,
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
            targeted=False,
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
            targeted=False,
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
    ]


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


@hookimpl
def unmask_data() -> Iterable[DataEntry]:
    """Data sets."""
    return [
        DataEntry(
            name="digits",
            summary="1,797 handwritten digits of 8 x 8 pixels that come with scikit-learn; the last 360 are "
            "the test set.",
            reference="Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits, UCI Machine "
            "Learning Repository, doi:10.24432/C50P49",
            build="unmask_plugins.data.digits:digits",
        ),
        DataEntry(
            name="arrays",
            summary="Images and labels of your own, from npz, netCDF, safetensors or a folder of npy files.",
            reference="NumPy, netCDF4 and safetensors file formats",
            build="unmask_plugins.data.arrays:arrays",
        ),
        DataEntry(
            name="cifar10",
            summary="CIFAR-10: 10,000 test images of 32 x 32 pixels in 10 classes; fetched where it is "
            "missing.",
            reference="Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images",
            build="unmask_plugins.data.cifar:cifar10",
        ),
        DataEntry(
            name="cifar100",
            summary="CIFAR-100: 10,000 test images of 32 x 32 pixels in 100 classes; fetched where it is "
            "missing.",
            reference="Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images",
            build="unmask_plugins.data.cifar:cifar100",
        ),
        DataEntry(
            name="imagenet",
            summary="ImageNet in folders named by WordNet ids, or a part of it, with the usual classes.",
            reference="Russakovsky et al. 2015, ImageNet Large Scale Visual Recognition Challenge, "
            "arXiv:1409.0575",
            build="unmask_plugins.data.imagenet:imagenet",
        ),
        DataEntry(
            name="image-folder",
            summary="Images of your own in one folder for each class.",
            reference="torchvision.datasets.ImageFolder, "
            "https://docs.pytorch.org/vision/stable/datasets.html",
            build="unmask_plugins.data.image_folder:image_folder",
        ),
    ]


@hookimpl
def unmask_recipes() -> Iterable[RecipeEntry]:
    """Training recipes."""
    return [
        RecipeEntry(
            name="standard",
            summary="Cross-entropy on clean images, with optional shifts and noise.",
            reference="Kingma and Ba 2015, Adam, arXiv:1412.6980",
            build="unmask_plugins.recipes.standard:Standard",
        ),
        RecipeEntry(
            name="front-end",
            summary="Trains a front end before a frozen classifier on PGD examples, at a tiny rate, for at "
            "most one epoch: the recipe that masks gradients.",
            reference=f"{CURIOUS_CASE}; inner maximisation: Madry et al. 2018, arXiv:1706.06083",
            build="unmask_plugins.recipes.front_end:FrontEndTraining",
        ),
    ]


@hookimpl
def unmask_metrics() -> Iterable[MetricEntry]:
    """Measurements beyond the core ones."""
    return [
        MetricEntry(
            name="calibration",
            summary="Calibration error, Brier score, log-likelihood and confidence, clean and under attack.",
            reference="Guo et al. 2017, On calibration of modern neural networks, arXiv:1706.04599; Brier "
            "1950, Verification of forecasts expressed in terms of probability",
            build="unmask_plugins.metrics.calibration:Calibration",
            dims=("model", "attack", "epsilon"),
        ),
        MetricEntry(
            name="certified-radius",
            summary="Certified l2 radius of every sample under Gaussian noise (randomized smoothing), "
            "checked against the adversarial examples found.",
            reference="Cohen, Rosenfeld and Kolter 2019, Certified adversarial robustness via randomized "
            "smoothing, arXiv:1902.02918",
            build="unmask_plugins.metrics.certified_radius:CertifiedRadius",
            unit="pixel value",
            dims=("model", "sample"),
        ),
    ]


@hookimpl
def unmask_kernels() -> Any:
    """The tensor kernels, imported when first asked for."""
    import unmask_kernels.provider as provider

    return provider
