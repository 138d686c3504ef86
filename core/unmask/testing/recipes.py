"""The laws for training recipes."""

from __future__ import annotations

from typing import Any

import attrs
import torch
from torch import Tensor, nn

from unmask.data import LabelledImages
from unmask.errors import UserError
from unmask.models.defended import Defended
from unmask.models.initialisation import seeded
from unmask.testing.known import small_net
from unmask.testing.laws import LawBroken, require
from unmask.testing.subject import Subject
from unmask.testing.world import World

__all__ = ["CHECKS"]

CHEAP = {"epochs": 1, "updates": 1, "batch": 16}
"""Options of usual names that cost, cut down unless `conformance` is told otherwise."""


class _Residual(nn.Module):
    """A front end with weights."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv2d(1, 1, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        shown: Tensor = images - 0.1 * self.inner(images)
        return shown


def _data() -> LabelledImages:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(48, 1, 6, 6, generator=generator)
    labels = torch.randint(0, 4, (48,), generator=generator)
    return LabelledImages(images, labels, torch.arange(48))


def _models() -> list[nn.Module]:
    """What there is to train: a front end before a classifier, and a classifier alone."""
    with seeded(0):
        return [Defended(_Residual(), small_net(1, 4)).eval(), small_net(1, 4)]


@attrs.frozen(eq=False)
class _Training:
    """What came of training.

    Attributes:
        before: The model as it was.
        model: The model now.
        told: What progress was told.
        data: What it was trained on.
    """

    before: nn.Module
    model: nn.Module
    told: list[tuple[str, int, int]]
    data: LabelledImages


def _trained(subject: Subject, seed: int = 0) -> _Training:
    on_offer = {option.parameter for option in subject.options_on_offer()}
    cheap = {name: value for name, value in CHEAP.items() if name in on_offer and name not in subject.options}
    recipe = subject.build(**cheap)
    told: list[tuple[str, int, int]] = []

    def progress(what: str, done: int, total: int) -> None:
        told.append((what, done, total))

    refused: Exception | None = None
    for before, model in zip(_models(), _models(), strict=True):
        data = _data()
        try:
            recipe(model, data, seed=seed, device=torch.device("cpu"), progress=progress)
            return _Training(before, model, told, data)
        except UserError as error:
            refused = refused or error  # a recipe may be for one of the two alone
    raise LawBroken(
        f"it trains neither a front end before a classifier nor a classifier: {refused}",
        "Train an nn.Module from images [sample, channel, height, width] to logits, or an unmask.Defended.",
    ) from refused


def trains_in_place(subject: Subject) -> None:
    """A recipe changes the model it is given, and tells how far it is."""
    done = _trained(subject)
    before, model, told = done.before, done.model, done.told
    changed = any(not torch.equal(a, b) for a, b in zip(before.parameters(), model.parameters(), strict=True))
    require(changed, "no parameter changed", "Train the model that is given, in place.")
    require(
        told and told[-1][1] == told[-1][2] and all(done <= total for _, done, total in told),
        f"progress was told {told[-1:] or 'nothing'}",
        "Call progress(what, done, total) after every update; at the end done is total.",
    )


def leaves_a_model_that_can_be_evaluated(subject: Subject) -> None:
    """The model comes back in eval mode, finite, with every `requires_grad` as it was."""
    done = _trained(subject)
    before, model = done.before, done.model
    training = [name for name, module in model.named_modules() if module.training]
    require(not training, f"in training mode: {', '.join(training[:3])}", "End with model.eval().")
    wanted = [p.requires_grad for p in before.parameters()] == [p.requires_grad for p in model.parameters()]
    require(wanted, "requires_grad of some parameters is not as before", "Put every requires_grad back.")
    finite = all(bool(torch.isfinite(p).all()) for p in model.parameters())
    require(finite, "weights are not finite", "Lower the rate; stop where the loss is not finite.")


def gives_the_same_for_the_same_seed(subject: Subject) -> None:
    """Same model, data and seed: same weights; data and global random states are as before."""
    world = World.of(nn.Module())
    one, two = _trained(subject, 3), _trained(subject, 3)
    changed = world.changed()
    world.restore()
    require(not changed, f"it changed {', '.join(changed)}", "Draw from a generator seeded with `seed`.")
    states: list[Any] = [one.model.state_dict(), two.model.state_dict()]
    same = all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())
    require(
        same,
        "trained twice with the same seed the weights differ",
        "Draw from a generator seeded with `seed`.",
    )
    data, untouched = one.data, _data()
    kept = torch.equal(data.images, untouched.images) and torch.equal(data.labels, untouched.labels)
    require(kept, "it writes into the data", "Work on copies of images and labels.")


CHECKS = (trains_in_place, leaves_a_model_that_can_be_evaluated, gives_the_same_for_the_same_seed)
