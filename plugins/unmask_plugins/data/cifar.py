"""CIFAR-10 and CIFAR-100."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

from unmask.cache import cache_folder
from unmask.data import LabelledImages
from unmask.errors import UserError
from unmask.manifest.location import resolved

__all__ = ["cifar10", "cifar100"]

Split = Literal["train", "test"]


def cifar10(path: Path | None = None, split: Split = "test", download: bool = True) -> LabelledImages:
    """CIFAR-10 (Krizhevsky 2009): 10,000 test images of 32 x 32 pixels in 10 classes.

    Args:
        path: The folder that holds, or shall hold, ``cifar-10-batches-py`` or its archive; relative to the
            manifest. Unless given, ``data`` in Unmask's cache folder.
        split: ``test``, or ``train``, the 50,000 training images. Ids count within each.
        download: Fetch the archive where it is missing.

    Returns:
        Images [sample, 3, 32, 32], float32 in [0, 1] in steps of 1/255, and their class.

    Raises:
        UserError: An unknown split, or files that are missing or damaged and cannot be fetched.
    """
    return _cifar("CIFAR10", "cifar10", path, split, download)


def cifar100(path: Path | None = None, split: Split = "test", download: bool = True) -> LabelledImages:
    """CIFAR-100 (Krizhevsky 2009): 10,000 test images of 32 x 32 pixels in 100 classes.

    Args:
        path: The folder that holds, or shall hold, ``cifar-100-python`` or its archive; relative to the
            manifest. Unless given, ``data`` in Unmask's cache folder.
        split: ``test``, or ``train``, the 50,000 training images. Ids count within each.
        download: Fetch the archive where it is missing.

    Returns:
        As `cifar10`.

    Raises:
        UserError: As `cifar10`.
    """
    return _cifar("CIFAR100", "cifar100", path, split, download)


def _cifar(kind: str, name: str, path: Path | None, split: str, download: bool) -> LabelledImages:
    from torchvision import datasets

    if split not in ("train", "test"):
        raise UserError(f"'{split}' is neither 'train' nor 'test'.", where="split")
    folder = cache_folder() / "data" if path is None else resolved(path)
    build: Any = getattr(datasets, kind)
    train = split == "train"
    try:
        try:
            found = build(folder, train=train, download=False)
        except RuntimeError:  # missing or damaged, by its checksum
            if not download:
                raise UserError(
                    f"{folder} does not hold '{build.base_folder}' whole. Put it there, name another folder "
                    "with `path`, or let it be fetched with `download = true`.",
                    where="path",
                ) from None
            found = build(folder, train=train, download=True)
    except UserError:
        raise
    except Exception as error:  # of the network, of the archive, or of the disk
        cause = " ".join(str(error).split()).rstrip(".")
        raise UserError(
            f"{folder} does not hold '{build.base_folder}' whole, and it could not be fetched "
            f"({type(error).__name__}: {cause}). Put {build.filename} from {build.url} there on your own, or "
            "name the folder that holds it with `path`.",
            where="path",
        ) from error
    images = torch.from_numpy(found.data).permute(0, 3, 1, 2).contiguous().float().div(255.0)
    return LabelledImages(
        images=images, labels=torch.tensor(found.targets), ids=torch.arange(len(images)), name=name
    )
