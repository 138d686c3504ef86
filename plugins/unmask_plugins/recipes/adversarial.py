"""Adversarial training, and its forms for ensembles that are to err in different ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs
import torch
from attrs.validators import optional
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unmask.data import LabelledImages
from unmask.errors import MisuseError, UserError
from unmask.models.reference import ModelReference
from unmask.training import TrainingContext
from unmask_plugins.recipes.augmentation import varied
from unmask_plugins.recipes.diversity.derangement import Derangement, deranged_losses, derangement_of
from unmask_plugins.recipes.diversity.public_models import Weighting, public_models_losses
from unmask_plugins.recipes.diversity.transfer_penalty import transfer_penalty_losses
from unmask_plugins.recipes.inner_maximisation import Crafting, Norm, in_eval_mode
from unmask_plugins.recipes.loop import Loop, right_answers
from unmask_plugins.recipes.optimisers import OptimiserName, build_optimiser, falling_to_zero, is_optimiser
from unmask_plugins.recipes.surroundings import (
    parameters_to_train,
    training_alone,
    updates_in,
    would_change_backbone,
)
from unmask_plugins.recipes.validators import at_least_one, not_negative, one_of, positive, weight

__all__ = ["AdversarialTraining", "Diversity"]

Diversity = Literal["derangement", "public-models", "transfer-penalty"]

_BELONGS: dict[str, tuple[Diversity, ...]] = {
    "derangement": ("derangement",),
    "sources": ("derangement", "public-models"),
    "weighting": ("public-models",),
    "promote": ("transfer-penalty",),
    "demote": ("transfer-penalty",),
}

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@attrs.frozen
class AdversarialTraining:
    """Training on the worst images nearby (Madry et al. 2018), the rate falling linearly to zero.

    The minimum over the weights of E max CE(f(x + δ), y), the maximum over δ within `epsilon`, found by PGD
    from a random start on the model in eval mode. ``fast = true`` takes a single, longer step instead: FGSM
    from a random start (Wong, Rice & Kolter 2020).

    With `diversity` the model, or a whole ensemble, is trained to err in a way of its own; the equations
    stand at `deranged_losses`, `public_models_losses` and `transfer_penalty_losses`.

    Attributes:
        epsilon: Radius of the training examples, in units of a pixel value (l2: of the whole image).
        norm: ``linf`` or ``l2``.
        steps: PGD steps per batch; 7 unless given.
        step: Size of a step; a quarter of `epsilon` unless given, 5/4 of it where `fast`.
        fast: One FGSM step from a random start in the place of PGD.
        epochs: Passes over the data.
        rate: Learning rate of the first update.
        batch: Images per update.
        optimiser: ``adam`` or ``sgd``.
        weight_decay: Share of the squared weights' slope added to the gradient.
        shift: Every image is moved by up to so many pixels along both axes, the border filled with the
            smallest pixel value.
        flip: Mirror images left to right at random.
        clean: Weight of the loss on clean images; 0 unless given, 1 with `diversity`.
        diversity: ``derangement``: examples driven towards a class t are taught as the class d(t), d being
            this model's own (Sharif et al. 2019); ``public-models``: the examples are those of other models
            (Sitawarin et al. 2024); ``transfer-penalty``: the members of an ensemble are trained together,
            each told off where another's examples mislead it (Bui et al. 2021).
        derangement: With ``derangement``: d as a number k, for d(t) = t + k modulo the number of classes; as
            a list; or ``drawn`` from the model's training seed, which is the default.
        sources: With ``public-models``: the models whose examples are trained on. With ``derangement``: on
            which the examples are made, if not on the model itself.
        weighting: With ``public-models``: ``all`` sources in every batch (default), one at ``random``, or
            the ``hardest`` for each image.
        promote: With ``transfer-penalty``: weight of the loss on another's examples that a member
            withstands; 1 unless given.
        demote: With ``transfer-penalty``: weight of the entropy on those that mislead it; 1 unless given.
    """

    epsilon: float = attrs.field(default=8 / 255, validator=positive)
    norm: Norm = attrs.field(default="linf", validator=one_of(Norm))
    steps: int | None = attrs.field(default=None, validator=optional(at_least_one))
    step: float | None = attrs.field(default=None, validator=optional(positive))
    fast: bool = False
    epochs: int = attrs.field(default=30, validator=at_least_one)
    rate: float = attrs.field(default=3e-3, validator=positive)
    batch: int = attrs.field(default=64, validator=at_least_one)
    optimiser: OptimiserName = attrs.field(default="adam", validator=is_optimiser)
    weight_decay: float = attrs.field(default=0.0, validator=weight)
    shift: int = attrs.field(default=0, validator=not_negative)
    flip: bool = False
    clean: float | None = attrs.field(default=None, validator=optional(weight))
    diversity: Diversity | None = attrs.field(default=None, validator=optional(one_of(Diversity)))
    derangement: Derangement | None = None
    sources: Sequence[ModelReference] = attrs.field(default=(), converter=tuple)
    weighting: Weighting | None = attrs.field(default=None, validator=optional(one_of(Weighting)))
    promote: float | None = attrs.field(default=None, validator=optional(weight))
    demote: float | None = attrs.field(default=None, validator=optional(weight))

    def __attrs_post_init__(self) -> None:
        if self.fast and self.steps not in (None, 1):
            raise UserError("takes one step where `fast` is true. Leave one of the two out.", where="steps")
        for option, kinds in _BELONGS.items():
            if getattr(self, option) not in (None, ()) and self.diversity not in kinds:
                needed = " or ".join(f'diversity = "{kind}"' for kind in kinds)
                raise UserError(f"belongs to {needed}. Add that, or leave it out.", where=option)
        if self.diversity == "public-models" and not self.sources:
            raise UserError(
                "diversity = \"public-models\" needs the models to train against: sources = ['...'].",
                where="sources",
            )

    def why_not(self, model: nn.Module) -> str | None:
        """Why it cannot train this model; None: it can."""
        if (reason := would_change_backbone("adversarial", model)) is not None:
            return reason
        if self.diversity == "transfer-penalty" and len(_members(model)) < 2:
            return (
                'diversity = "transfer-penalty" trains the members of an ensemble together: write the '
                "recipe into the table of an ensemble with two members or more."
            )
        return None

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
            MisuseError: It cannot train such a model.
            UserError: No data, nothing to train, a derangement that does not fit the classes, or the loss is
                no longer finite.
        """
        if (reason := self.why_not(model)) is not None:
            raise MisuseError(reason)
        updates = updates_in(self.epochs, data, self.batch)
        context = context or TrainingContext()
        trained = parameters_to_train(model, "model")
        with training_alone(model, seed, device) as generator:
            craft = self._crafting(data.bounds, generator)
            sources = [context.model(reference) for reference in self.sources]
            model.train()
            objective = self._objective(model, sources, craft, data.images[:1].to(device))
            optimiser = build_optimiser(self.optimiser, trained, self.rate, self.weight_decay)

            def losses(rows: Tensor) -> tuple[Tensor, Tensor]:
                images = varied(
                    data.images[rows],
                    shift=self.shift,
                    flip=self.flip,
                    background=data.bounds[0],
                    generator=generator,
                )
                return objective(images.to(device), data.labels[rows].to(device))

            Loop(
                what="adversarial training",
                module=model,
                optimiser=optimiser,
                schedule=falling_to_zero(optimiser, updates),
                generator=generator,
                images=len(data),
                batch=self.batch,
                updates=updates,
                context=context,
                progress=progress,
            ).run(losses)

    def _crafting(self, bounds: tuple[float, float], generator: torch.Generator) -> Crafting:
        usual = 1.25 if self.fast else 0.25
        return Crafting(
            epsilon=self.epsilon,
            step=usual * self.epsilon if self.step is None else self.step,
            steps=1 if self.fast else self.steps or 7,
            norm=self.norm,
            bounds=bounds,
            generator=generator,
        )

    def _objective(
        self, model: nn.Module, sources: Sequence[nn.Module], craft: Crafting, image: Tensor
    ) -> Objective:
        """From images and labels to the loss and the share of right answers."""
        clean = (0.0 if self.diversity is None else 1.0) if self.clean is None else self.clean
        if self.diversity == "public-models":
            return public_models_losses(model, sources, self.weighting or "all", craft, clean)
        if self.diversity == "transfer-penalty":
            promote = 1.0 if self.promote is None else self.promote
            demote = 1.0 if self.demote is None else self.demote
            return transfer_penalty_losses(_members(model), promote, demote, craft, clean)
        if self.diversity == "derangement":
            with in_eval_mode(model), torch.no_grad():
                classes = model(image).shape[1]
            said = "drawn" if self.derangement is None else self.derangement
            d = derangement_of(said, classes, craft.generator)
            return deranged_losses(model, sources, d, craft, clean)

        def losses(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
            answers = model(craft(model, images, labels))
            loss = cross_entropy(answers, labels)
            if clean:
                loss = loss + clean * cross_entropy(model(images), labels)
            return loss, right_answers(answers, labels)

        return losses


def _members(model: nn.Module) -> list[nn.Module]:
    """The members of an ensemble; none of anything else."""
    members: Any = getattr(model, "members", None)
    return list(members) if isinstance(members, nn.ModuleList) else []
