"""The built-in data sets, offered through the same hook as anybody's."""

from __future__ import annotations

from collections.abc import Iterable

from unmask.entries import DataEntry
from unmask.markers import hookimpl

__all__ = ["unmask_data"]


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
        DataEntry(
            name="robustbench",
            summary="The clean images that RobustBench evaluates on (needs robustbench).",
            reference="Croce et al. 2021, RobustBench: a standardized adversarial robustness benchmark, "
            "arXiv:2010.09670",
            build="unmask_plugins.data.robustbench_images:robustbench_images",
        ),
    ]
