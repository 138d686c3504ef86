"""The denoising convolutional network DnCNN, used as a front end."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from unmask.errors import UserError

__all__ = ["DnCNN"]

Initialisation = Literal["orthogonal", "he"]


class DnCNN(nn.Module):
    """DnCNN (Zhang et al. 2017, section III-A): `images - r(images)`, with r a plain stack of convolutions.

    r is Conv + ReLU, then ``depth - 2`` times Conv + BatchNorm + ReLU, then Conv, all 3 x 3 at full
    resolution. As in the public implementations only the first convolution has a bias: BatchNorm's own
    shift replaces it in the middle, and the last one estimates noise of mean zero.

    Args:
        depth: Number of convolutions, at least 2; 17 in the paper for noise of one known level.
        channels: Feature maps of every hidden layer.
        image_channels: Channels of the images, in and out.
        skip: Residual learning (section III-B). Without it the stack has to draw the whole image itself:
            the output is r(images).
        residual: Root mean square that `calibrate` gives to r on clean images, in units of a pixel
            value; None leaves r's size as it is.
        initialisation: ``orthogonal``, or ``he`` (He et al. 2015), which the paper cites.
        eps: Added to the variance in every BatchNorm.
        momentum: Share of the newest batch in BatchNorm's running statistics, as PyTorch counts it.

    Raises:
        UserError: An option out of its range.
    """

    def __init__(
        self,
        depth: int = 17,
        channels: int = 64,
        image_channels: int = 3,
        skip: bool = True,
        residual: float | None = None,
        initialisation: Initialisation = "orthogonal",
        eps: float = 1e-4,
        momentum: float = 0.1,
    ) -> None:
        super().__init__()
        for name, value, least in (
            ("depth", depth, 2),
            ("channels", channels, 1),
            ("image_channels", image_channels, 1),
        ):
            if value < least:
                raise UserError(f"{value} must be at least {least}.", where=name)
        if residual is not None and not 0 < residual < float("inf"):
            raise UserError(f"{residual} must be a positive number, or left out.", where="residual")
        if initialisation not in ("orthogonal", "he"):
            raise UserError(f"'{initialisation}' is neither 'orthogonal' nor 'he'.", where="initialisation")
        if not eps > 0:
            raise UserError(f"{eps} must be positive.", where="eps")
        if not 0 < momentum <= 1:
            raise UserError(f"{momentum} must lie above 0 and at most at 1.", where="momentum")
        self.skip = skip
        self.residual = residual

        layers: list[nn.Module] = [nn.Conv2d(image_channels, channels, 3, padding=1), nn.ReLU()]
        for _ in range(depth - 2):
            layers += [
                nn.Conv2d(channels, channels, 3, padding=1, bias=False),
                nn.BatchNorm2d(channels, eps=eps, momentum=momentum),
                nn.ReLU(),
            ]
        layers.append(nn.Conv2d(channels, image_channels, 3, padding=1, bias=False))
        self.stack = nn.Sequential(*layers)

        for layer in self.stack:
            if isinstance(layer, nn.Conv2d):
                if initialisation == "orthogonal":
                    nn.init.orthogonal_(layer.weight)
                else:
                    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    @property
    def last(self) -> nn.Conv2d:
        """The convolution that gives r."""
        layer = self.stack[-1]
        assert isinstance(layer, nn.Conv2d)
        return layer

    def forward(self, images: Tensor) -> Tensor:
        """Images [sample, channel, height, width] to images of the same shape, not cut to any range."""
        r: Tensor = self.stack(images)
        return images - r if self.skip else r

    @torch.no_grad()
    def calibrate(self, images: Tensor) -> None:
        """Set BatchNorm's statistics on clean images, then r's root mean square on them to `residual`.

        BatchNorm of a fresh network assumes mean 0 and variance 1 in every layer, far from what the layers
        see, and r all but vanishes. One pass in train mode with momentum 1 makes the statistics those of
        `images`, layer by layer. r is linear in the last convolution, which has no bias, so that rescaling it
        meets `residual` exactly.

        Args:
            images: Some hundred clean images [sample, channel, height, width]; they are passed at once.

        Raises:
            UserError: No images, or r is zero or not finite on them, so that no scale gives the wanted size.
        """
        if len(images) == 0:
            raise UserError("calibration needs at least one clean image.", where="calibrate")
        norms = [layer for layer in self.stack if isinstance(layer, nn.BatchNorm2d)]
        before = [(layer.training, layer.momentum) for layer in norms]
        try:
            for layer in norms:
                layer.train()
                layer.momentum = 1.0
            self.stack(images)
            for layer in norms:
                layer.eval()
            size = self.stack(images).double().square().mean().sqrt()
        finally:
            for layer, (training, momentum) in zip(norms, before, strict=True):
                layer.train(training)
                layer.momentum = momentum
        if not torch.isfinite(size) or size == 0:
            raise UserError(
                f"the network's residual on clean images has the root mean square {size.item()}: nothing to "
                "rescale. Calibrate a freshly initialised network, on images that are not all constant.",
                where="calibrate",
            )
        if self.residual is not None:
            self.last.weight.mul_(self.residual / size.item())
