"""ImageNet, or a part of it, with the class indices that pretrained models use."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from unmask.data import LabelledImages
from unmask.errors import UserError, suggestion
from unmask.manifest.location import resolved
from unmask_plugins.data.image_files import class_folders, labelled_files

__all__ = ["imagenet"]


def imagenet(
    path: Path, size: int = 224, resize: int = 256, split: Literal["train", "test"] = "test"
) -> LabelledImages:
    """ILSVRC 2012 (Russakovsky et al. 2015) in folders named by WordNet ids, such as ``n01440764``.

    A folder's class is its index among the 1,000 of the challenge, also where only some of them are there.
    ImageNet cannot be fetched: its terms have to be agreed to at https://image-net.org/download.php. Only the
    images of the chosen samples are read.

    Args:
        path: The folder that holds ``val`` and ``train``, or the class folders themselves, which are then the
            test images; relative to the manifest.
        size: Height and width: what is cut from the middle.
        resize: What the shorter side is brought to before that.
        split: ``test``, the 50,000 images for validation, or ``train``.

    Returns:
        Images [sample, 3, size, size], float32 in [0, 1] in steps of 1/255. Ids count the files in the order
        of folders and names.

    Raises:
        UserError: No such folder, no images, or a folder that is no class of the challenge.
    """
    from timm.data.imagenet_info import ImageNetInfo

    if split not in ("train", "test"):
        raise UserError(f"'{split}' is neither 'train' nor 'test'.", where="split")
    root = resolved(path)
    if not root.is_dir():
        raise UserError(
            f"there is no folder {root}. ImageNet cannot be fetched for you: agree to its terms and get it "
            "at https://image-net.org/download.php.",
            where="path",
        )
    inner = root / ("train" if split == "train" else "val")
    if inner.is_dir():
        root = inner
    elif split == "train":
        raise UserError(f"there are no training images: {root} has no folder 'train'.", where="path")
    challenge: Any = ImageNetInfo("imagenet-1k")
    index = {name: k for k, name in enumerate(challenge.label_names())}
    classes = class_folders(root, "path")
    for folder in classes:
        if folder.name not in index:
            close = suggestion(folder.name, index).split("? ")
            hint = f" {close[0]}?" if len(close) > 1 else ""
            raise UserError(
                f"{folder} is none of the challenge's 1,000 classes, which are named by WordNet ids such as "
                f"n01440764.{hint} For other classes use 'image-folder'.",
                where="path",
            )
    return labelled_files(
        [(folder, index[folder.name]) for folder in classes],
        size=size,
        resize=resize,
        name="imagenet",
        where="path",
    )
