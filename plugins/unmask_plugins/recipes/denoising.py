"""Training a front end to remove noise, by itself: no classifier has a say."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import attrs
import torch
from attrs.validators import optional
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from unmask.data import LabelledImages
from unmask.errors import UserError
from unmask.models.defended import Defended
from unmask.training import TrainingContext
from unmask_plugins.recipes.augmentation import varied
from unmask_plugins.recipes.loop import Loop
from unmask_plugins.recipes.optimisers import OptimiserName, build_optimiser, falling_to_zero, is_optimiser
from unmask_plugins.recipes.surroundings import parameters_to_train, training_alone, updates_in
from unmask_plugins.recipes.validators import at_least_one, fraction, not_negative, positive

__all__ = ["Denoising"]


@attrs.frozen
class Denoising:
    """Mean squared error of cleaned noisy images (Zhang et al. 2017, eq. 1), the rate falling to zero.

    The mean over images, and pixels, of (x - D(x + n))² with normal noise n of standard deviation `sigma`.
    For a front end D(y) = y - R(y) this is the paper's |R(y) - (y - x)|² up to a constant factor. The front
    end, BatchNorm included, is in train mode; the classifier behind it is not asked.

    Attributes:
        sigma: Standard deviation of the noise, in units of a pixel value; 25/255 is the paper's middle level.
        least_sigma: Draw a level between this and `sigma` for every image (blind denoising, section III-D);
            one level unless given.
        epochs: Passes over the data.
        rate: Learning rate of the first update.
        batch: Images per update.
        optimiser: ``adam`` or ``sgd``.
        shift: Every image is moved by up to so many pixels along both axes, the border filled with the
            smallest pixel value.
        flip: Mirror images left to right at random.
    """

    sigma: float = attrs.field(default=25 / 255, validator=positive)
    least_sigma: float | None = attrs.field(default=None, validator=optional(fraction))
    epochs: int = attrs.field(default=50, validator=at_least_one)
    rate: float = attrs.field(default=1e-3, validator=positive)
    batch: int = attrs.field(default=64, validator=at_least_one)
    optimiser: OptimiserName = attrs.field(default="adam", validator=is_optimiser)
    shift: int = attrs.field(default=0, validator=not_negative)
    flip: bool = False

    sees_backbone: ClassVar[bool] = False

    def __attrs_post_init__(self) -> None:
        if self.least_sigma is not None and self.least_sigma > self.sigma:
            raise UserError(f"{self.least_sigma} must not exceed `sigma`.", where="least_sigma")

    def __call__(
        self,
        model: nn.Module,
        data: LabelledImages,
        *,
        seed: int,
        device: torch.device,
        progress: Callable[[str, int, int], None],
        context: TrainingContext | None = None,
    ) -> None:
        """Train the front end of a `Defended`, or a front end that stands alone, in place.

        Raises:
            UserError: No data, nothing to train, something else than a front end, one whose `residual` would
                have no effect, or the loss is no longer finite.
        """
        updates = updates_in(self.epochs, data, self.batch)
        front_end = model.front_end if isinstance(model, Defended) else model
        if getattr(front_end, "residual", None) is not None:
            raise UserError(
                "the front end's `residual` is set by the calibration of the recipe 'front-end'; here it "
                "would have no effect. Leave it out of the front end."
            )
        trained = parameters_to_train(front_end, "front end")
        with training_alone(model, seed, device) as generator:
            model.eval()
            self._check(front_end, data.images[:1].to(device))
            front_end.train()
            optimiser = build_optimiser(self.optimiser, trained, self.rate)

            def losses(rows: Tensor) -> tuple[Tensor, None]:
                images = varied(
                    data.images[rows],
                    shift=self.shift,
                    flip=self.flip,
                    background=data.bounds[0],
                    generator=generator,
                )
                noise = self._levels(len(images), generator) * torch.randn(images.shape, generator=generator)
                return mse_loss(front_end((images + noise).to(device)), images.to(device)), None

            Loop(
                what="training to denoise",
                module=front_end,
                optimiser=optimiser,
                schedule=falling_to_zero(optimiser, updates),
                generator=generator,
                images=len(data),
                batch=self.batch,
                updates=updates,
                context=context or TrainingContext(),
                progress=progress,
            ).run(losses)

    def _levels(self, count: int, generator: torch.Generator) -> Tensor:
        """The noise level of every image, [sample, 1, 1, 1]."""
        if self.least_sigma is None:
            return torch.full((count, 1, 1, 1), self.sigma)
        drawn = torch.rand((count, 1, 1, 1), generator=generator)
        return self.least_sigma + (self.sigma - self.least_sigma) * drawn

    @staticmethod
    def _check(front_end: nn.Module, image: Tensor) -> None:
        with torch.no_grad():
            shape = front_end(image).shape
        if shape != image.shape:
            raise UserError(
                f"it gives {tuple(shape)} for an image of {tuple(image.shape)}: the recipe 'denoising' "
                "trains front ends, from image to image. Give the model a front end, or use 'standard'."
            )
