"""The median filter as a front end."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad

from unmask.errors import UserError

__all__ = ["Median", "mean_filter"]


class Median(nn.Module):
    """Every pixel becomes the median of its window (Xu, Evans and Qi 2018, feature squeezing).

    The gradient goes to one pixel of each window. For the backward pass of BPDA the mean of the window stands
    for the median.

    Args:
        window: Height and width of the window, odd; borders are mirrored.

    Raises:
        UserError: A window that is even or not positive.
    """

    def __init__(self, window: int = 3) -> None:
        super().__init__()
        if window < 1 or window % 2 == 0:
            raise UserError(f"{window} must be an odd number, such as 3.", where="window")
        self.window = window

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] to images of the same shape.

        Raises:
            UserError: The window reaches more than an image's size beyond its border.
        """
        shown = _mirrored(images, self.window)
        windows = shown.unfold(2, self.window, 1).unfold(3, self.window, 1)
        return windows.flatten(4).median(4).values

    def surrogate(self, images: Tensor) -> Tensor:
        """The mean filter of the same window."""
        return mean_filter(images, self.window)


def mean_filter(images: Tensor, window: int = 3) -> Tensor:
    """Every pixel becomes the mean of its window; shapes and borders as for `Median`."""
    return avg_pool2d(_mirrored(images, window), window, stride=1)


def _mirrored(images: Tensor, window: int) -> Tensor:
    reach = window // 2
    if reach >= min(images.shape[2:]):
        raise UserError(
            f"a window of {window} is too large for images of {images.shape[2]} x {images.shape[3]} pixels.",
            where="window",
        )
    return pad(images, (reach,) * 4, mode="reflect")
