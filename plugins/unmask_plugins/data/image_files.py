"""Images kept as one file each, in a folder for each class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unmask.data import DeferredImages, LabelledImages
from unmask.errors import UserError

__all__ = ["class_folders", "labelled_files"]


def class_folders(folder: Path, where: str) -> list[Path]:
    """The folders in a folder, by name.

    Args:
        folder: Holds one folder for each class.
        where: The option that named it, for messages.

    Raises:
        UserError: There is no such folder, or it holds none.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}.", where=where)
    found = sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith("."))
    if not found:
        raise UserError(
            f"{folder} holds no folders. Images lie in one folder for each class: cat/1.png, dog/2.png.",
            where=where,
        )
    return found


def labelled_files(
    classes: Sequence[tuple[Path, int]],
    *,
    size: int | None,
    resize: int | None,
    name: str,
    where: str,
) -> LabelledImages:
    """Every image of some class folders, in the order of folders and names; read when it is needed.

    Args:
        classes: Folders with the class index of what they hold.
        size: Height and width of the square cut from the middle; None: images as they are, all of one size.
        resize: Length of the shorter side before that; None: `size`.
        name: What the data set is called.
        where: The option that named the folders, for messages.

    Raises:
        UserError: No images, sizes out of range, or images of different sizes where `size` is None.
    """
    from torchvision.datasets.folder import IMG_EXTENSIONS

    if size is not None and size < 1:
        raise UserError(f"{size} must be at least 1.", where="size")
    if resize is not None and (size is None or resize < size):
        raise UserError(
            f"{resize} needs a `size` that is at most as large: the square cut from the middle.",
            where="resize",
        )
    files, labels = [], []
    for folder, label in classes:
        here = sorted(f for f in folder.rglob("*") if f.suffix.lower() in IMG_EXTENSIONS and f.is_file())
        files += here
        labels += [label] * len(here)
    if not files:
        raise UserError(
            f"the folders in {classes[0][0].parent} hold no images. Known: {', '.join(IMG_EXTENSIONS)}.",
            where=where,
        )
    height, width = (size, size) if size is not None else _common_size(files)
    images = DeferredImages(_reader(files, size, resize), (3, height, width), range(len(files)))
    return LabelledImages(
        images=images,  # type: ignore[arg-type]
        labels=torch.tensor(labels),
        ids=torch.arange(len(files)),
        name=name,
    )


def _reader(files: Sequence[Path], size: int | None, resize: int | None) -> Callable[[int], Tensor]:
    def read(position: int) -> Tensor:
        from PIL import Image
        from torchvision.transforms import InterpolationMode, functional

        file = files[position]
        try:
            with Image.open(file) as opened:
                image = opened.convert("RGB")
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise UserError(f"is no image that can be read: {error}", file=str(file)) from error
        if size is not None:
            image = functional.resize(image, [resize or size], InterpolationMode.BILINEAR)
            image = functional.center_crop(image, [size, size])
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(255.0)

    return read


def _common_size(files: Sequence[Path]) -> tuple[int, int]:
    """Height and width, from the files' headers."""
    from PIL import Image, UnidentifiedImageError

    sizes: dict[tuple[int, int], Path] = {}
    for file in files:
        try:
            with Image.open(file) as opened:
                sizes.setdefault(opened.size, file)
        except (OSError, UnidentifiedImageError) as error:
            raise UserError(f"is no image that can be read: {error}", file=str(file)) from error
        if len(sizes) > 1:
            (first, one), (second, other) = sizes.items()
            raise UserError(
                f"{one.name} has {first[1]} x {first[0]} pixels and {other.name} {second[1]} x {second[0]}. "
                "Give a `size` that all are brought to.",
                where="size",
            )
    ((width, height),) = sizes
    return height, width
