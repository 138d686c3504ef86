"""Ordinary training."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unmask.data import LabelledImages
from unmask.training import TrainingContext
from unmask_plugins.recipes.augmentation import varied
from unmask_plugins.recipes.loop import Loop, right_answers
from unmask_plugins.recipes.optimisers import OptimiserName, build_optimiser, falling_to_zero, is_optimiser
from unmask_plugins.recipes.surroundings import (
    parameters_to_train,
    training_alone,
    updates_in,
    would_change_backbone,
)
from unmask_plugins.recipes.validators import at_least_one, fraction, not_negative, positive, weight

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
        flip: Mirror images left to right at random.
        weight_decay: Share of the squared weights' slope added to the gradient.
    """

    epochs: int = attrs.field(default=30, validator=at_least_one)
    rate: float = attrs.field(default=3e-3, validator=positive)
    batch: int = attrs.field(default=64, validator=at_least_one)
    optimiser: OptimiserName = attrs.field(default="adam", validator=is_optimiser)
    shift: int = attrs.field(default=0, validator=not_negative)
    noise: float = attrs.field(default=0.0, validator=fraction)
    flip: bool = False
    weight_decay: float = attrs.field(default=0.0, validator=weight)

    @staticmethod
    def why_not(model: nn.Module) -> str | None:
        """Why it cannot train this model; None: it can."""
        return would_change_backbone("standard", model)

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
        """Train every parameter of `model` that requires a gradient.

        Raises:
            UserError: No data, nothing to train, or the loss is no longer finite.
        """
        updates = updates_in(self.epochs, data, self.batch)
        trained = parameters_to_train(model, "model")
        with training_alone(model, seed, device) as generator:
            optimiser = build_optimiser(self.optimiser, trained, self.rate, self.weight_decay)
            model.train()

            def losses(rows: Tensor) -> tuple[Tensor, Tensor]:
                images = varied(
                    data.images[rows],
                    shift=self.shift,
                    flip=self.flip,
                    noise=self.noise,
                    background=data.bounds[0],
                    generator=generator,
                ).to(device)
                labels = data.labels[rows].to(device)
                logits = model(images)
                return cross_entropy(logits, labels), right_answers(logits, labels)

            Loop(
                what="training",
                module=model,
                optimiser=optimiser,
                schedule=falling_to_zero(optimiser, updates),
                generator=generator,
                images=len(data),
                batch=self.batch,
                updates=updates,
                context=context or TrainingContext(),
                progress=progress,
            ).run(losses)
