"""Ordinary training."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from unmask.data import LabelledImages
from unmask.errors import UserError
from unmask_plugins.recipes.optimisers import OptimiserName, build_optimiser, is_optimiser
from unmask_plugins.recipes.surroundings import check_loss, training_alone
from unmask_plugins.recipes.validators import at_least_one, fraction, not_negative, positive

__all__ = ["Standard"]


@attrs.frozen
class Standard:
    """Cross-entropy on clean images, the rate falling linearly to zero.

    Attributes:
        epochs: Passes over the data.
        rate: Learning rate of the first update.
        batch: Images per update.
        optimiser: ``adam`` or ``sgd``.
        shift: Every image is moved by up to so many pixels along both axes, the border filled with the
            smallest pixel value.
        noise: Standard deviation of normal noise added to every image, in units of a pixel value.
    """

    epochs: int = attrs.field(default=30, validator=at_least_one)
    rate: float = attrs.field(default=3e-3, validator=positive)
    batch: int = attrs.field(default=64, validator=at_least_one)
    optimiser: OptimiserName = attrs.field(default="adam", validator=is_optimiser)
    shift: int = attrs.field(default=0, validator=not_negative)
    noise: float = attrs.field(default=0.0, validator=fraction)

    def __call__(
        self,
        model: nn.Module,
        data: LabelledImages,
        *,
        seed: int,
        device: torch.device,
        progress: Callable[[str, int, int], None],
    ) -> None:
        """Train every parameter of `model` that requires a gradient.

        Raises:
            UserError: No data, nothing to train, or the loss is no longer finite.
        """
        if len(data) == 0:
            raise UserError("there are no images to train on.", where="data")
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if not trained:
            raise UserError("the model has no parameter that requires a gradient: nothing to train.")
        batches = -(-len(data) // self.batch)
        total = self.epochs * batches
        with training_alone(model, seed, device) as generator:
            optimiser = build_optimiser(self.optimiser, trained, self.rate)
            schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda done: 1.0 - done / total)
            model.train()
            done = 0
            for _ in range(self.epochs):
                for rows in torch.randperm(len(data), generator=generator).split(self.batch):
                    images = self._varied(data.images[rows], data.bounds[0], generator).to(device)
                    labels = data.labels[rows].to(device)
                    loss = cross_entropy(model(images), labels)
                    optimiser.zero_grad(set_to_none=True)
                    loss.backward()
                    optimiser.step()
                    schedule.step()
                    done += 1
                    progress("training", done, total)
                check_loss(loss.item(), done)

    def _varied(self, images: Tensor, background: float, generator: torch.Generator) -> Tensor:
        """The images, each with a shift and noise of its own."""
        if self.shift:
            n, _, height, width = images.shape
            padded = pad(images, (self.shift,) * 4, value=background)
            offsets = torch.randint(0, 2 * self.shift + 1, (2, n, 1), generator=generator)
            rows = (offsets[0] + torch.arange(height)).reshape(n, 1, height, 1)
            columns = (offsets[1] + torch.arange(width)).reshape(n, 1, 1, width)
            sample = torch.arange(n).reshape(n, 1, 1, 1)
            channel = torch.arange(images.shape[1]).reshape(1, -1, 1, 1)
            images = padded[sample, channel, rows, columns]
        if self.noise:
            images = images + self.noise * torch.randn(images.shape, generator=generator)
        return images
