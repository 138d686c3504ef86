"""The clean images that RobustBench evaluates on."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from unmask.cache import cache_folder
from unmask.data import LabelledImages
from unmask.errors import UserError
from unmask.manifest.location import resolved
from unmask_plugins.models.robustbench_zoo import imported_robustbench

__all__ = ["robustbench_images"]


def robustbench_images(
    dataset: Literal["cifar10", "cifar100", "imagenet"] = "cifar10",
    examples: int | None = None,
    path: Path | None = None,
    crop: Literal["resize-256-crop-224", "crop-288"] = "resize-256-crop-224",
) -> LabelledImages:
    """The first images of the test set, in RobustBench's order, through its own loader.

    Croce et al. 2021, RobustBench, arXiv:2010.09670. For ImageNet these are the 5,000 that its leaderboard
    uses.

    Args:
        dataset: Which.
        examples: How many; 10,000 (ImageNet: 5,000) unless given.
        path: Where the images lie, relative to the manifest; ImageNet's folder holds ``val``. For CIFAR,
            where they are missing, torchvision fetches them; ``data`` in Unmask's cache folder unless given.
        crop: How ImageNet's images are brought to size: a model's entry in RobustBench says which.

    Returns:
        Images [sample, 3, height, width], float32 in [0, 1] in steps of 1/255. Ids are the place in
        RobustBench's order.

    Raises:
        UserError: RobustBench is not installed, or the images are not there and cannot be fetched.
    """
    imported_robustbench("the data set 'robustbench'")
    from robustbench.data import PREPROCESSINGS, load_clean_dataset
    from robustbench.model_zoo.enums import BenchmarkDataset

    most = 5000 if dataset == "imagenet" else 10000
    count = most if examples is None else examples
    if not 1 <= count <= most:
        raise UserError(f"{count} must be between 1 and {most}.", where="examples")
    if dataset == "imagenet" and path is None:
        raise UserError("ImageNet cannot be fetched; name the folder that holds 'val'.", where="path")
    place = cache_folder() / "data" if path is None else resolved(path)
    name = {"resize-256-crop-224": "Res256Crop224", "crop-288": "Crop288"}[crop]
    preparation = PREPROCESSINGS[name if dataset == "imagenet" else None]
    try:
        images, labels = load_clean_dataset(BenchmarkDataset(dataset), count, str(place), preparation)
    except Exception as error:
        raise UserError(
            f"RobustBench's images of {dataset} are not in {place} and cannot be fetched "
            f"({type(error).__name__}: {error}).",
            where="path",
        ) from error
    return LabelledImages(
        images=images.float(),
        labels=labels.long(),
        ids=torch.arange(len(images)),
        name=f"robustbench {dataset}",
    )
