"""The built-in front ends, offered through the same hook as anybody's."""

from __future__ import annotations

from collections.abc import Iterable

from unmask.entries import FrontEndEntry
from unmask.markers import hookimpl
from unmask_plugins.registration.citations import CURIOUS_CASE

__all__ = ["unmask_front_ends"]


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
