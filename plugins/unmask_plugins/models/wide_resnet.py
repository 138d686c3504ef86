"""Wide residual networks, the backbones of most published defences on CIFAR."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn
from torch.nn.functional import relu

from unmask.errors import UserError
from unmask_plugins.models.preprocessing import Normalize

__all__ = ["WideResNet"]


class WideResNet(nn.Module):
    """WRN-depth-width (Zagoruyko and Komodakis 2016, section 3): pre-activation blocks in three stages.

    Weights are named as the common PyTorch implementations of defences name them: ``conv1``,
    ``block1.layer.0.bn1``, ``convShortcut``, ``fc``.

    Args:
        depth: 6n + 4: 16, 22, 28, 34, 40, 70, ...
        width: Channels in multiples of 16, 32 and 64.
        classes: Number of logits.
        image_channels: 1 for grey images, 3 for colour.
        mean: Subtracted from each channel of the images; 0 unless given.
        std: Each channel is divided by it; 1 unless given.

    Raises:
        UserError: No such depth, or another number out of its range.
    """

    def __init__(
        self,
        depth: int = 28,
        width: int = 10,
        classes: int = 10,
        image_channels: int = 3,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        for name, value, least in (
            ("width", width, 1),
            ("classes", classes, 2),
            ("image_channels", image_channels, 1),
        ):
            if value < least:
                raise UserError(f"{value} must be at least {least}.", where=name)
        if depth < 10 or depth % 6 != 4:
            raise UserError(
                f"there is no WideResNet of depth {depth}: the depth is 6n + 4 (10, 16, 22, 28, 34, ...).",
                where="depth",
            )
        widths = (16, 16 * width, 32 * width, 64 * width)
        self.normalize = Normalize(mean, std, image_channels)
        self.conv1 = nn.Conv2d(image_channels, widths[0], 3, padding=1, bias=False)
        for i, (inputs, outputs) in enumerate(pairwise(widths)):
            self.add_module(f"block{i + 1}", Stage(inputs, outputs, (depth - 4) // 6, 1 if i == 0 else 2))
        self.bn1 = nn.BatchNorm2d(widths[-1])
        self.fc = nn.Linear(widths[-1], classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.fc.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] in [0, 1] to logits [sample, class]."""
        x = self.conv1(self.normalize(images))
        for name in ("block1", "block2", "block3"):
            x = self.get_submodule(name)(x)
        logits: Tensor = self.fc(relu(self.bn1(x)).mean((2, 3)))
        return logits


class Stage(nn.Module):
    """Blocks of one width; the first one changes width and resolution."""

    def __init__(self, inputs: int, outputs: int, blocks: int, stride: int) -> None:
        super().__init__()
        self.layer = nn.Sequential(
            *(Block(outputs if k else inputs, outputs, 1 if k else stride) for k in range(blocks))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Features to features."""
        features: Tensor = self.layer(x)
        return features


class Block(nn.Module):
    """BatchNorm and ReLU before each of two 3 x 3 convolutions."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.convShortcut = (
            None if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Features to features; a projection starts from the activated input."""
        active = relu(self.bn1(x))
        inner: Tensor = self.conv2(relu(self.bn2(self.conv1(active))))
        return inner + (x if self.convShortcut is None else self.convShortcut(active))
