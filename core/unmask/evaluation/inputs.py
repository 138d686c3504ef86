"""What an evaluation takes, checked before anything is attacked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.data import LabelledImages
from unmask.errors import MisuseError, UserError

__all__ = ["check_bounds", "check_samples"]


def check_bounds(bounds: Any) -> tuple[float, float]:
    """Smallest and largest valid pixel value.

    Raises:
        UserError: Not two finite numbers in ascending order.
    """
    try:
        low, high = (float(b) for b in bounds)
    except (TypeError, ValueError) as error:
        raise MisuseError(
            f"{bounds!r} is not a pair of numbers such as (0.0, 1.0).", where="bounds"
        ) from error
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UserError(f"({low}, {high}) must be finite and ascending, such as (0.0, 1.0).", where="bounds")
    return low, high


def _as_tensor(values: Any, where: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise UserError(
            "the images have different sizes; bring them to one size first.", where=where
        ) from error
    if array.dtype.kind not in "biufcO" or values is None:
        raise MisuseError(f"must be numbers in an array, not {values!r:.60}.", where=where)
    if array.dtype == object:
        raise UserError(
            "the images have different sizes, or are not numbers; give one array "
            "[sample, channel, height, width].",
            where=where,
        )
    # A copy where the array is read-only, which torch cannot express.
    return torch.from_numpy(np.ascontiguousarray(array) if array.flags.writeable else array.copy())


def _check_images(images: Any, bounds: tuple[float, float]) -> Tensor:
    where = "images"
    if isinstance(images, (list, tuple)) and images and all(isinstance(i, Tensor) for i in images):
        sizes = {tuple(i.shape) for i in images}
        if len(sizes) > 1:
            raise UserError(
                f"the images have different sizes ({', '.join(map(str, sorted(sizes)))}); bring them to one "
                "size first.",
                where=where,
            )
        images = torch.stack(list(images))
    tensor = _as_tensor(images, where)
    if tensor.dtype == torch.uint8:
        raise MisuseError(
            "are uint8. Give floats in the bounds, for example images.astype('float32') / 255, in NCHW "
            "order.",
            where=where,
        )
    if not tensor.is_floating_point():
        raise MisuseError(f"are {tensor.dtype}; give floating-point pixel values.", where=where)
    if tensor.ndim != 4:
        raise UserError(
            f"have shape {tuple(tensor.shape)}; they must be [sample, channel, height, width].", where=where
        )
    if tensor.numel() == 0:
        raise UserError(f"have shape {tuple(tensor.shape)}: there is nothing to evaluate.", where=where)
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    if not bool(torch.isfinite(tensor).all()):
        raise UserError("contain NaN or infinite values.", where=where)
    least, most = float(tensor.min()), float(tensor.max())
    if least < bounds[0] or most > bounds[1]:
        raise UserError(
            f"have values from {least:.9g} to {most:.9g}, outside the bounds {bounds}. Undo the "
            "normalisation (it belongs inside the model), or give the bounds that fit, such as "
            "bounds=(0, 255).",
            where=where,
        )
    return tensor


def _check_labels(labels: Any, count: int) -> Tensor:
    where = "labels"
    tensor = _as_tensor(labels, where)
    if tensor.ndim == 2 and len(tensor) == count and tensor.shape[1] > 1:
        raise UserError(
            f"have shape {tuple(tensor.shape)} and look one-hot; give class indices, for example "
            "labels.argmax(1).",
            where=where,
        )
    if tensor.ndim != 1 or len(tensor) != count:
        raise UserError(
            f"have shape {tuple(tensor.shape)} for {count} images; give one class index each.", where=where
        )
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise MisuseError(
            f"are {str(tensor.dtype).removeprefix('torch.')}; class indices are integers, for example "
            "labels.astype('int64').",
            where=where,
        )
    tensor = tensor.to(torch.int64)
    if int(tensor.min()) < 0:
        raise UserError(f"go down to {int(tensor.min())}; class indices start at 0.", where=where)
    return tensor


def _check_ids(ids: Any, count: int) -> Tensor:
    where = "sample_ids"
    if ids is None:
        return torch.arange(count)
    tensor = _as_tensor(ids, where)
    if tensor.ndim != 1 or len(tensor) != count or tensor.is_floating_point():
        raise UserError(
            f"have shape {tuple(tensor.shape)} and type {tensor.dtype}; give {count} integers.", where=where
        )
    if len(tensor.unique()) != count:
        raise UserError("occur more than once; every sample needs an index of its own.", where=where)
    return tensor.to(torch.int64)


def check_samples(
    images: Any,
    labels: Any,
    bounds: tuple[float, float],
    sample_ids: Sequence[int] | Tensor | None = None,
) -> LabelledImages:
    """Images and labels as tensors on the CPU.

    Raises:
        UserError: Integer images, values outside the bounds or not finite, mixed sizes, wrong shapes; labels
            that are one-hot, floating-point, negative or too few; ids that repeat.
    """
    checked = _check_images(images, bounds).cpu()
    return LabelledImages(
        images=checked,
        labels=_check_labels(labels, len(checked)).cpu(),
        ids=_check_ids(sample_ids, len(checked)).cpu(),
        bounds=bounds,
    )
