"""Random resizing and padding, the defence that adds no parameter and no training."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad

from unmask.errors import UserError

__all__ = ["RandomResizePad", "mean_resize"]


class RandomResizePad(nn.Module):
    """Resize to a random size, pad with zeros at random sides (Xie et al. 2018).

    Nearest-neighbour resizing, size and place drawn for every image. The paper enlarges 299 pixels to 299
    ... 330 and pads to 331: ``padded = 331``. Without it images keep their size and are shrunk by the same
    ratio instead, for classifiers that take one size only. The gradient of a draw is exact; for the
    backward pass of BPDA the mean size in the middle stands for the draw, resized bilinearly.

    Args:
        smallest: Smallest size, as a share of the padded one.
        padded: Height and width after padding, in pixels; the image's own unless given.

    Raises:
        UserError: A share outside (0, 1], or a size that is not positive.
    """

    def __init__(self, smallest: float = 299 / 331, padded: int | None = None) -> None:
        super().__init__()
        if not 0 < smallest <= 1:
            raise UserError(f"{smallest} must lie above 0 and at most at 1.", where="smallest")
        if padded is not None and padded < 1:
            raise UserError(f"{padded} must be at least 1.", where="padded")
        self.smallest, self.padded = smallest, padded

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] to images of the padded size."""
        height, width = _final(images, self.padded)
        shown = [images.new_zeros((0, images.shape[1], height, width))]
        for image in images.split(1):
            # One draw scales both sides, so that the aspect ratio stays.
            low = round(self.smallest * height)
            rows = low if low == height else int(torch.randint(low, height, ()))
            rows = max(1, rows)
            columns = max(1, min(width, round(rows * width / height)))
            top = int(torch.randint(0, height - rows + 1, ()))
            left = int(torch.randint(0, width - columns + 1, ()))
            small = interpolate(image, size=(rows, columns), mode="nearest")
            shown.append(pad(small, (left, width - columns - left, top, height - rows - top)))
        return torch.cat(shown)

    def surrogate(self, images: Tensor) -> Tensor:
        """The mean size, in the middle."""
        return mean_resize(images, self.smallest, self.padded)


def mean_resize(images: Tensor, smallest: float = 299 / 331, padded: int | None = None) -> Tensor:
    """Images of the mean size of `RandomResizePad`'s draws, padded evenly on all sides; no randomness."""
    height, width = _final(images, padded)
    share = (1 + smallest) / 2
    rows, columns = max(1, round(share * height)), max(1, round(share * width))
    top, left = (height - rows) // 2, (width - columns) // 2
    small = interpolate(images, size=(rows, columns), mode="bilinear", align_corners=False)
    return pad(small, (left, width - columns - left, top, height - rows - top))


def _final(images: Tensor, padded: int | None) -> tuple[int, int]:
    """Height and width after padding."""
    return (images.shape[2], images.shape[3]) if padded is None else (padded, padded)
