"""Labelled images, as data plugins give them and evaluations take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LabelledImages"]


@attrs.frozen(eq=False)
class LabelledImages:
    """Images with their labels.

    Attributes:
        images: Float tensor [sample, channel, height, width] in `bounds`.
        labels: Integer class indices [sample].
        ids: The data set's own index of every sample, int64 [sample].
        bounds: Smallest and largest valid pixel value.
        name: What the data set is called in reports.
    """

    images: Tensor
    labels: Tensor
    ids: Tensor
    bounds: tuple[float, float] = (0.0, 1.0)
    name: str = "data"

    def __len__(self) -> int:
        return len(self.images)

    def select(self, rows: Tensor) -> LabelledImages:
        """The samples at these positions, in this order."""
        return attrs.evolve(self, images=self.images[rows], labels=self.labels[rows], ids=self.ids[rows])
