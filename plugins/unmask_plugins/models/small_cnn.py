"""A classifier small enough to be trained in seconds on a laptop."""

from __future__ import annotations

from torch import Tensor, nn

from unmask.errors import UserError

__all__ = ["SmallCNN"]


class SmallCNN(nn.Module):
    """Three 3 x 3 convolutions with BatchNorm, a 4 x 4 grid of averages and one linear layer.

    The second convolution halves the resolution, so that 8 x 8 digits reach the grid without averaging.

    Args:
        classes: Number of logits.
        image_channels: 1 for grey images, 3 for colour.
        width: Channels of every convolution.

    Raises:
        UserError: A number is not positive, or `classes` below 2.
    """

    def __init__(self, classes: int = 10, image_channels: int = 1, width: int = 16) -> None:
        super().__init__()
        for name, value, least in (
            ("classes", classes, 2),
            ("image_channels", image_channels, 1),
            ("width", width, 1),
        ):
            if value < least:
                raise UserError(f"{value} must be at least {least}.", where=name)
        layers: list[nn.Module] = []
        for inputs, stride in ((image_channels, 1), (width, 2), (width, 1)):
            layers += [
                nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4))
        self.head = nn.Linear(width * 16, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] in [0, 1] to logits [sample, class]."""
        logits: Tensor = self.head(self.features(images - 0.5).flatten(1))
        return logits
