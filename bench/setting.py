"""What is attacked in a benchmark: models and images, from a folder or made here."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import torch
from torch import Tensor, nn

import unmask
from unmask.weights import load_weights

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
IMAGES, STANDARD, ADVERSARIAL = "cifar10-test-1000.npz", "resnet20-12fca82f.th", "resnet20-adversarial.pt"


class NotHereError(Exception):
    """A row that cannot be measured here, and why."""


@attrs.define
class Setting:
    """Where and on what to measure.

    Attributes:
        device: Where.
        repeats: Pairs of every row that takes seconds; those that take minutes are measured once.
        samples: Images.
        data: A folder with CIFAR-10 images and two ResNet-20 (README.md); None: random weights and images.
    """

    device: torch.device
    repeats: int
    samples: int
    data: Path | None

    def model(self, which: str = ADVERSARIAL, depth: int = 20) -> nn.Module:
        """A ResNet for CIFAR-10: trained where there is data."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model: nn.Module = unmask.model("cifar-resnet", depth=depth, mean=MEAN, std=STD)
        if self.data is not None:
            load_weights(model, self.data / which)
        return model.eval().requires_grad_(False).to(self.device)

    def samples_of(self, model: nn.Module, count: int | None = None) -> tuple[Tensor, Tensor]:
        """Images and labels; made-up images are labelled by the model itself."""
        n = count or self.samples
        if self.data is None:
            images = torch.rand(n, 3, 32, 32, generator=torch.Generator().manual_seed(1)).to(self.device)
            with torch.no_grad():
                return images, model(images).argmax(1)
        kept = np.load(self.data / IMAGES)
        images = torch.from_numpy(kept["images"][:n]).permute(0, 3, 1, 2).float().div(255).contiguous()
        return images.to(self.device), torch.from_numpy(kept["labels"][:n]).to(self.device)

    def needs_data(self) -> None:
        """Refuse a row whose number means nothing for random weights."""
        if self.data is None:
            raise NotHereError("needs trained models: --data DIR")
