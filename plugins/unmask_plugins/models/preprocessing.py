"""Normalisation and input size, put inside a model so that attacks see images in [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from unmask.errors import UserError

__all__ = ["Interpolation", "Normalize", "Resize", "put_before"]

Interpolation = Literal["nearest", "bilinear", "bicubic"]


class Normalize(nn.Module):
    """(images - mean) / std, channel by channel.

    The two are buffers that no state dict holds: weights files know nothing of them.

    Args:
        mean: One number for each channel, or one for all; 0 when None.
        std: The same; 1 when None.
        image_channels: Channels of the images.

    Raises:
        UserError: Another number of values, or values that are not finite, or a `std` that is not positive.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, mean: Sequence[float] | None, std: Sequence[float] | None, image_channels: int
    ) -> None:
        super().__init__()
        for name, given, otherwise in (("mean", mean, 0.0), ("std", std, 1.0)):
            values = [otherwise] if given is None else [float(value) for value in given]
            if len(values) not in (1, image_channels):
                raise UserError(
                    f"{len(values)} values for images of {image_channels} channels; give one for each.",
                    where=name,
                )
            if not all(math.isfinite(v) and (name == "mean" or v > 0) for v in values):
                kind = "positive" if name == "std" else "finite"
                raise UserError(f"{values} must be {kind} numbers.", where=name)
            self.register_buffer(
                name,
                torch.tensor(values).expand(image_channels)[:, None, None].contiguous(),
                persistent=False,
            )

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] to images of the same shape."""
        return (images - self.mean) / self.std


class Resize(nn.Module):
    """Images of any size to the one a network takes; those that have it already stay as they are.

    Args:
        height: Rows that the network takes.
        width: Columns.
        interpolation: How pixels are filled in; what is shrunk is smoothed first, except by ``nearest``.
    """

    def __init__(self, height: int, width: int, interpolation: Interpolation = "bilinear") -> None:
        super().__init__()
        self.height, self.width, self.interpolation = height, width, interpolation

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] to [sample, channel, self.height, self.width]."""
        size = (self.height, self.width)
        if tuple(images.shape[2:]) == size:
            return images
        if self.interpolation == "nearest":
            return interpolate(images, size=size, mode="nearest")
        return interpolate(images, size=size, mode=self.interpolation, align_corners=False, antialias=True)


def put_before(network: nn.Module, *steps: nn.Module) -> nn.Module:
    """The same network, which now first passes its images through `steps`.

    A hook does it, not a wrapper, so that the names of the network's weights stay what their files say.
    """
    if any(True for step in steps for _ in step.state_dict()):
        raise ValueError("a step with weights of its own would add names that no weights file has")
    if isinstance(network, nn.Sequential) and type(network).forward is nn.Sequential.forward:
        # It calls whatever is added to it, after its own layers.
        network.__class__ = _PreparedSequential
    network.add_module("unmask_preprocessing", nn.Sequential(*steps))
    network.register_forward_pre_hook(_preprocess)
    return network


class _PreparedSequential(nn.Sequential):
    """The layers alone: what stands before them is called by the hook."""

    def forward(self, input: Tensor) -> Tensor:
        """As `nn.Sequential`."""
        for name, layer in self._modules.items():  # shared layers come as often as they are there
            if name != "unmask_preprocessing" and layer is not None:
                input = layer(input)
        return input


def _preprocess(network: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    steps = network.get_submodule("unmask_preprocessing")
    return (steps(arguments[0]), *arguments[1:])
