"""Labelled images, as data plugins give them and evaluations take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DataReference", "DeferredImages", "LabelledImages"]


@attrs.frozen(eq=False)
class DeferredImages:
    """Images that are read when it is known which are wanted: a large set need not fit into memory.

    Attributes:
        read: Gives one image [channel, height, width] by its position in the whole set.
        size: Its shape, the same for all.
        positions: Which of the whole set these are.
    """

    read: Callable[[int], Tensor]
    size: tuple[int, int, int]
    positions: Sequence[int]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[sample, channel, height, width], as of the tensor they become."""
        return (len(self.positions), *self.size)

    @property
    def ndim(self) -> int:
        """Four."""
        return 4

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, rows: Tensor) -> DeferredImages:
        """The images at these positions among these."""
        import torch

        chosen = torch.arange(len(self))[rows].tolist()
        return attrs.evolve(self, positions=[self.positions[row] for row in chosen])

    def tensor(self) -> Tensor:
        """All of them, read."""
        import torch

        if not self.positions:
            return torch.zeros(self.shape)
        return torch.stack([self.read(position) for position in self.positions])


@attrs.frozen(eq=False)
class LabelledImages:
    """Images with their labels.

    Attributes:
        images: Float tensor [sample, channel, height, width] in `bounds`; a data plugin may give
            `DeferredImages`, which are read before anybody else sees them.
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

    def loaded(self) -> LabelledImages:
        """The same with deferred images read."""
        images: object = self.images
        if isinstance(images, DeferredImages):
            return attrs.evolve(self, images=images.tensor())
        return self


@attrs.frozen(eq=False)
class DataReference:
    """Images beside those of the run that an option names, such as those a search starts from.

    An option annotated with this type takes the name of a data set, its table (also with ``samples``), or
    `LabelledImages`.

    Attributes:
        data: The images and their labels.
        said: The option's value that means them.
    """

    data: LabelledImages
    said: Mapping[str, Any]
