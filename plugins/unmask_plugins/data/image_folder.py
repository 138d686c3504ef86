"""Images of your own in one folder for each class."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from unmask.data import LabelledImages
from unmask.errors import UserError
from unmask.manifest.location import resolved
from unmask_plugins.data.image_files import class_folders, labelled_files

__all__ = ["image_folder"]


def image_folder(
    path: Path,
    size: int | None = None,
    resize: int | None = None,
    train_path: Path | None = None,
    split: Literal["train", "test"] = "test",
) -> LabelledImages:
    """Colour images in class folders, as torchvision's ImageFolder has them.

    The folders' names in alphabetical order are classes 0, 1, ...; the ids count the files in this order.
    Only the images of the chosen samples are read.

    Args:
        path: The folder that holds the class folders; relative to the manifest.
        size: Height and width: the shorter side is brought to it, and the middle is cut out. Needed where
            images differ in size.
        resize: What the shorter side is brought to before the middle is cut out; `size` unless given.
        train_path: A folder with the same classes to train on; needed only where a model is trained.
        split: Which of the two is wanted.

    Returns:
        Images [sample, 3, size, size], float32 in [0, 1] in steps of 1/255.

    Raises:
        UserError: No such folder, no images, images of different sizes, or other classes to train on.
    """
    if split not in ("train", "test"):
        raise UserError(f"'{split}' is neither 'train' nor 'test'.", where="split")
    folder = resolved(path)
    classes = class_folders(folder, "path")
    where = "path"
    if split == "train":
        where = "train-path"
        if train_path is None:
            raise UserError(
                "there are no training images: name their folder with `train-path`, or give the models "
                "weights.",
                where=where,
            )
        names = [one.name for one in classes]
        folder = resolved(train_path)
        classes = class_folders(folder, where)
        if [one.name for one in classes] != names:
            differing = sorted({one.name for one in classes} ^ set(names))
            raise UserError(
                f"{folder} has other classes than {resolved(path)}: they differ in "
                f"{', '.join(differing[:5])}.",
                where=where,
            )
    return labelled_files(
        [(one, k) for k, one in enumerate(classes)], size=size, resize=resize, name=folder.name, where=where
    )
