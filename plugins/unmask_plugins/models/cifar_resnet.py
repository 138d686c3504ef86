"""Residual networks in the form that small images need."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, relu

from unmask.errors import UserError
from unmask_plugins.models.preprocessing import Normalize

__all__ = ["CifarResNet"]

FOUR_STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Blocks per stage of He et al. (2016), table 1, by depth."""

BOTTLENECK_FROM = 50
"""From this depth on blocks are bottlenecks."""


class CifarResNet(nn.Module):
    """A residual network (He et al. 2016) whose stem is one 3 x 3 convolution, without max-pooling.

    Depth 18, 34, 50, 101 and 152 have the four stages and the projection shortcuts of table 1, with 64 to 512
    channels. Depth 6n + 2 (20, 32, 44, 56, 110, ...) has the three stages of section 4.2, with 16 to 64
    channels and parameter-free shortcuts (option A). Weights are named as the common CIFAR implementations
    name them: ``conv1``, ``bn1``, ``layer1`` ..., ``shortcut``, ``linear``.

    Args:
        depth: 18, 34, 50, 101, 152, or 6n + 2 from 8 on.
        classes: Number of logits.
        image_channels: 1 for grey images, 3 for colour.
        mean: Subtracted from each channel of the images; 0 unless given.
        std: Each channel is divided by it; 1 unless given.

    Raises:
        UserError: No such depth, or another number out of its range.
    """

    def __init__(
        self,
        depth: int = 18,
        classes: int = 10,
        image_channels: int = 3,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        for name, value, least in (("classes", classes, 2), ("image_channels", image_channels, 1)):
            if value < least:
                raise UserError(f"{value} must be at least {least}.", where=name)
        counts: tuple[int, ...]
        block: type[Basic | Bottleneck]
        if depth in FOUR_STAGES:
            counts, width = FOUR_STAGES[depth], 64
            block = Bottleneck if depth >= BOTTLENECK_FROM else Projected
        elif depth >= 8 and depth % 6 == 2:
            counts, width, block = ((depth - 2) // 6,) * 3, 16, Basic
        else:
            raise UserError(
                f"there is no ResNet of depth {depth} for small images: 18, 34, 50, 101, 152, or 6n + 2 "
                "(20, 32, 44, 56, 110, ...).",
                where="depth",
            )
        self.normalize = Normalize(mean, std, image_channels)
        self.conv1 = nn.Conv2d(image_channels, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        self.stages: list[str] = []
        for i, count in enumerate(counts):
            blocks = []
            for k in range(count):
                made = block(channels, width * 2**i, stride=2 if i and not k else 1)
                blocks.append(made)
                channels = width * 2**i * made.expansion
            self.stages.append(f"layer{i + 1}")
            self.add_module(self.stages[-1], nn.Sequential(*blocks))
        self.linear = nn.Linear(channels, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] in [0, 1] to logits [sample, class]."""
        x = relu(self.bn1(self.conv1(self.normalize(images))))
        for stage in self.stages:
            x = self.get_submodule(stage)(x)
        logits: Tensor = self.linear(x.mean((2, 3)))
        return logits


class Basic(nn.Module):
    """Two 3 x 3 convolutions; the shortcut drops pixels and adds channels of zeros (option A)."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.stride, self.added = stride, width * self.expansion - inputs

    def forward(self, x: Tensor) -> Tensor:
        """Features to features [sample, width, height / stride, width / stride]."""
        return relu(self.bn2(self.conv2(relu(self.bn1(self.conv1(x))))) + self._carried(x))

    def _carried(self, x: Tensor) -> Tensor:
        if self.stride == 1 and self.added == 0:
            return x
        front = self.added // 2
        return pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, front, self.added - front))


class Projected(Basic):
    """The same two convolutions; where shapes change, the shortcut is a 1 x 1 convolution (option B)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__(inputs, width, stride)
        self.shortcut = _projection(inputs, width * self.expansion, stride)

    def _carried(self, x: Tensor) -> Tensor:
        carried: Tensor = self.shortcut(x)
        return carried


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 (which strides) and 1 x 1 convolutions, four times as wide at the end."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.shortcut = _projection(inputs, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Features to features [sample, 4 width, height / stride, width / stride]."""
        inner = relu(self.bn2(self.conv2(relu(self.bn1(self.conv1(x))))))
        carried: Tensor = self.shortcut(x)
        return torch.relu(self.bn3(self.conv3(inner)) + carried)


def _projection(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    if stride == 1 and inputs == outputs:
        return nn.Sequential()
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs))
