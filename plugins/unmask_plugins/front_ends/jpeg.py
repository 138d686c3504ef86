"""JPEG compression as a front end."""

from __future__ import annotations

import io

import numpy as np
import torch
from torch import Tensor, nn

from unmask.errors import UserError

__all__ = ["JPEG"]


class JPEG(nn.Module):
    """Images through a JPEG file and back (Dziugaite et al. 2016; Guo et al. 2018, section 3).

    Values are rounded to 8 bits first. No gradient passes; the backward pass of BPDA takes the identity, as
    Athalye et al. (2018) do against input transformations.

    Args:
        quality: 1 (smallest file) to 95, libjpeg's scale.

    Raises:
        UserError: A quality outside of it.
    """

    def __init__(self, quality: int = 75) -> None:
        super().__init__()
        if not 1 <= quality <= 95:
            raise UserError(f"{quality} must be a whole number from 1 to 95.", where="quality")
        self.quality = quality

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, 1 or 3, height, width] in [0, 1] to images of the same shape.

        Raises:
            UserError: Neither one channel nor three.
        """
        if images.shape[1] not in (1, 3):
            raise UserError(f"JPEG knows grey and colour images, not {images.shape[1]} channels.")
        bytes_ = (images.detach().clamp(0, 1) * 255).round().to(torch.uint8)
        rows = bytes_.permute(0, 2, 3, 1).cpu().numpy()
        decoded = [torch.from_numpy(self._through_file(row)) for row in rows]
        if not decoded:
            return images.detach().clone()
        return torch.stack(decoded).permute(0, 3, 1, 2).to(images) / 255

    def _through_file(self, image: np.ndarray) -> np.ndarray:
        """One uint8 image [height, width, channel], compressed and read again."""
        from PIL import Image

        grey = image.shape[2] == 1
        file = io.BytesIO()
        Image.fromarray(image[:, :, 0] if grey else image).save(file, "JPEG", quality=self.quality)
        with Image.open(file) as read:
            return np.array(read).reshape(image.shape)
