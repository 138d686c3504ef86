"""Labelled images from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from unmask.data import LabelledImages
from unmask.errors import MisuseError, UserError
from unmask.manifest.location import resolved
from unmask_plugins.data.reading import read_arrays

__all__ = ["arrays"]


def arrays(
    path: Path, train_path: Path | None = None, split: Literal["train", "test"] = "test"
) -> LabelledImages:
    """Images and labels from ``.npz``, netCDF (``.nc``), ``.safetensors``, or ``.npy`` files.

    ``.npy`` files are ``images.npy`` and ``labels.npy`` in one folder; the path names it or the former.
    The file holds ``images`` and ``labels``, and may hold ``ids`` (or ``index``): the sample's number in the
    set it was taken from, otherwise its position in the file. Images are float [sample, channel, height,
    width] in [0, 1], or uint8 [sample, height, width, channel], which is divided by 255.

    Args:
        path: The images to evaluate on; relative to the manifest.
        train_path: Images to train on, in the same form; needed only where a model is trained.
        split: Which of the two is wanted.

    Raises:
        UserError: No such file or array, or arrays whose shape, type or values are not as above.
        MisuseError: An array of a wrong type, such as float or one-hot labels.
    """
    if split not in ("train", "test"):
        raise UserError(f"'{split}' is neither 'train' nor 'test'.", where="split")
    if split == "train" and train_path is None:
        raise UserError(
            "there are no training images: name their file with `train-path`, or give the models weights.",
            where="train-path",
        )
    where = "train-path" if split == "train" else "path"
    file = resolved(train_path if split == "train" and train_path is not None else path)
    found = read_arrays(file, where)
    for key in ("images", "labels"):
        if key not in found:
            have = ", ".join(sorted(found)) or "nothing"
            raise UserError(f"{file} has no array '{key}'; it holds {have}.", where=where)
    try:
        images = _images(found["images"])
        labels = _labels(found["labels"], len(images))
        ids = _ids(found["ids"] if "ids" in found else found.get("index"), len(images))
    except UserError as error:
        raise error.located(where=where, file=str(file)) from None
    return LabelledImages(images=images, labels=labels, ids=ids, name=_name(file))


def _name(file: Path) -> str:
    return file.parent.name if file.suffix.lower() == ".npy" else file.stem


def _images(images: Tensor) -> Tensor:
    """float32 [sample, channel, height, width] in [0, 1]."""
    shape = tuple(images.shape)
    if images.ndim != 4:
        raise UserError(
            f"{shape} is not the shape of a batch of images: uint8 [sample, height, width, channel] or float "
            "[sample, channel, height, width].",
            where="images",
        )
    if 0 in shape:
        raise UserError(f"there is nothing in images of shape {shape}.", where="images")
    if images.dtype == torch.uint8:
        if shape[3] not in (1, 3, 4):
            raise UserError(
                f"uint8 images of shape {shape}: the last axis must be the channels (1, 3 or 4). Transpose "
                "to [sample, height, width, channel].",
                where="images",
            )
        return images.permute(0, 3, 1, 2).contiguous().float().div(255.0)
    if not images.is_floating_point():
        raise MisuseError(f"{_type(images)} must be float in [0, 1], or uint8.", where="images")
    if shape[1] not in (1, 3, 4) and shape[3] in (1, 3, 4):
        raise UserError(
            f"float images of shape {shape} seem to have the channels last; float images must be "
            "[sample, channel, height, width].",
            where="images",
        )
    images = images.float()
    if not bool(images.isfinite().all()):
        raise UserError("some pixels are NaN or infinite.", where="images")
    low, high = images.min().item(), images.max().item()
    if low < 0 or high > 1:
        raise UserError(
            f"the values lie in [{low:g}, {high:g}], not in [0, 1]. Divide 8-bit values by 255; leave "
            "normalisation to the model (`mean`, `std`).",
            where="images",
        )
    return images.contiguous()


def _labels(labels: Tensor, images: int) -> Tensor:
    """int64 class indices [sample]."""
    if labels.ndim == 2 and labels.shape[1] > 1:
        raise MisuseError(
            f"{tuple(labels.shape)} looks like one-hot labels or scores; give class indices [sample], "
            "such as `labels.argmax(1)`.",
            where="labels",
        )
    if labels.ndim != 1:
        raise UserError(f"{tuple(labels.shape)} must be one class index per image, [sample].", where="labels")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise MisuseError(f"{_type(labels)} must be whole numbers: class indices.", where="labels")
    if len(labels) != images:
        raise UserError(f"{len(labels)} labels for {images} images.", where="labels")
    labels = labels.long()
    if int(labels.min()) < 0:
        raise UserError(f"{int(labels.min())} is no class index: they count from 0.", where="labels")
    return labels


def _ids(ids: Tensor | None, images: int) -> Tensor:
    """int64 numbers of the samples, each once."""
    if ids is None:
        return torch.arange(images)
    if ids.ndim != 1 or len(ids) != images:
        raise UserError(
            f"{tuple(ids.shape)} must be one number for each of the {images} images.", where="ids"
        )
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise MisuseError(f"{_type(ids)} must be whole numbers.", where="ids")
    values, counts = ids.long().unique(return_counts=True)
    if int(counts.max()) > 1:
        raise UserError(
            f"{values[counts.argmax()]} occurs more than once; each id is one sample.", where="ids"
        )
    return ids.long()


def _type(array: Tensor) -> str:
    return str(array.dtype).removeprefix("torch.")
