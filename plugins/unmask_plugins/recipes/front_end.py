"""Training a front end before a frozen classifier: the recipe that masks gradients."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import torch
from attrs.validators import optional
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unmask.data import LabelledImages
from unmask.errors import MisuseError, UserError
from unmask.models.defended import Defended
from unmask.training import TrainingContext
from unmask_plugins.recipes.inner_maximisation import strongest_nearby
from unmask_plugins.recipes.loop import Loop, right_answers
from unmask_plugins.recipes.optimisers import OptimiserName, build_optimiser, is_optimiser
from unmask_plugins.recipes.surroundings import parameters_to_train, training_alone
from unmask_plugins.recipes.validators import at_least_one, not_negative, positive

__all__ = ["FrontEndTraining"]

CALIBRATION_IMAGES = 256
"""Clean images a front end with a wanted residual is calibrated on, unless the recipe says how many."""


@attrs.frozen
class FrontEndTraining:
    """Adversarial training of the front end alone, at a tiny rate, for at most one epoch.

    The recipe of Boytsov et al. (2025) that masks gradients. The backbone stays frozen and in eval mode; the
    front end, BatchNorm included, is in train mode and sees PGD examples of the whole composite under
    cross-entropy. The defaults follow the paper's recipe for a DnCNN of 17 layers and 64 channels and tens
    of thousands of images: a rate of about 1e-6 and one epoch. A thousand small images need a larger rate, a
    deeper, narrower network and a calibrated residual, as ``manifests/quickstart.toml`` shows.

    Attributes:
        epsilon: Radius (linf) of the training examples, in units of a pixel value.
        rate: Learning rate.
        steps: PGD steps per batch.
        step: Size of a PGD step; a quarter of `epsilon` unless given.
        batch: Images per update.
        updates: Stop after so many updates; unless given, after one epoch, whose last images are left out
            where they do not fill a batch.
        calibrate: Number of clean images the front end is calibrated on before training. Unless given,
            256 (or all there are) where the front end names a `residual`, otherwise none.
        optimiser: ``adam`` or ``sgd``.
    """

    epsilon: float = attrs.field(default=8 / 255, validator=positive)
    rate: float = attrs.field(default=1e-6, validator=positive)
    steps: int = attrs.field(default=5, validator=at_least_one)
    step: float | None = attrs.field(default=None, validator=optional(positive))
    batch: int = attrs.field(default=32, validator=at_least_one)
    updates: int | None = attrs.field(default=None, validator=optional(at_least_one))
    calibrate: int | None = attrs.field(default=None, validator=optional(not_negative))
    optimiser: OptimiserName = attrs.field(default="adam", validator=is_optimiser)

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
        """Train `model.front_end` in place.

        Raises:
            MisuseError: The model is not a `Defended`.
            UserError: The data give fewer batches than `updates` or fewer images than `calibrate`; the front
                end cannot be calibrated or has nothing to train; or the loss is no longer finite.
        """
        if (reason := self.why_not(model)) is not None:
            raise MisuseError(reason)
        assert isinstance(model, Defended)
        updates = self._updates(len(data))
        trained = parameters_to_train(model.front_end, "front end")
        with training_alone(model, seed, device) as generator:
            model.eval()
            self._calibrate(model.front_end, data, generator, device)
            model.front_end.train()
            for parameter in model.backbone.parameters():
                parameter.requires_grad_(False)

            def losses(rows: Tensor) -> tuple[Tensor, Tensor]:
                images, labels = data.images[rows].to(device), data.labels[rows].to(device)
                hard = strongest_nearby(
                    model,
                    images,
                    labels,
                    epsilon=self.epsilon,
                    step=self.epsilon / 4 if self.step is None else self.step,
                    steps=self.steps,
                    bounds=data.bounds,
                    generator=generator,
                )
                logits = model(hard)
                return cross_entropy(logits, labels), right_answers(logits, labels)

            Loop(
                what="training the front end",
                module=model.front_end,
                optimiser=build_optimiser(self.optimiser, trained, self.rate),
                generator=generator,
                images=len(data),
                batch=self.batch,
                updates=updates,
                whole=True,
                context=context or TrainingContext(),
                progress=progress,
            ).run(losses)

    @staticmethod
    def why_not(model: nn.Module) -> str | None:
        """Why it cannot train this model; None: it can."""
        if isinstance(model, Defended):
            return None
        return (
            f"the recipe 'front-end' trains a front end before a backbone, not a bare "
            f"{type(model).__name__}. Give the model a front end, or use the recipe 'standard'."
        )

    def _updates(self, images: int) -> int:
        """How many full batches to train on."""
        whole = images // self.batch
        if self.updates is None and whole:
            return whole
        wanted = self.updates or 1
        if wanted > whole:
            raise UserError(
                f"{wanted} updates of {self.batch} images need {wanted * self.batch} training images, at "
                f"most one epoch; there are {images}. Lower `updates` or `batch`.",
                where="updates",
            )
        return wanted

    def _calibrate(
        self, front_end: nn.Module, data: LabelledImages, generator: torch.Generator, device: torch.device
    ) -> None:
        """Calibrate the front end on clean images where that is asked for."""
        sized = getattr(front_end, "residual", None) is not None
        count = self.calibrate
        if count is None:
            count = min(CALIBRATION_IMAGES, len(data)) if sized else 0
        elif count == 0 and sized:
            raise UserError(
                "0 leaves the front end's `residual` without effect: it is set by calibration. "
                "Ask for some hundred images, or leave `residual` out.",
                where="calibrate",
            )
        if count == 0:
            return
        if count > len(data):
            raise UserError(f"{count} clean images are asked for; there are {len(data)}.", where="calibrate")
        calibrate = getattr(front_end, "calibrate", None)
        if not callable(calibrate):
            raise UserError(
                f"the front end {type(front_end).__name__} has no method `calibrate(images)`; "
                "set `calibrate = 0`.",
                where="calibrate",
            )
        rows = torch.randperm(len(data), generator=generator)[:count]
        calibrate(data.images[rows].to(device))
