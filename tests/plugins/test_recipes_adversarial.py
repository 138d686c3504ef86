from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unmask.data import LabelledImages
from unmask.errors import MisuseError, UserError
from unmask.models.defended import Defended
from unmask.models.reference import ModelReference
from unmask.training import TrainingContext
from unmask_plugins.data.digits import digits
from unmask_plugins.ensembles.averaging import MeanProbabilities
from unmask_plugins.models.small_cnn import SmallCNN
from unmask_plugins.recipes.adversarial import AdversarialTraining
from unmask_plugins.recipes.diversity.derangement import deranged_losses, derangement_of
from unmask_plugins.recipes.diversity.public_models import public_models_losses
from unmask_plugins.recipes.diversity.transfer_penalty import crossing, transfer_penalty_losses
from unmask_plugins.recipes.inner_maximisation import Crafting, strongest_nearby
from unmask_plugins.recipes.standard import Standard

CPU = torch.device("cpu")


def silent(what: str, done: int, total: int) -> None:
    """A progress callback that shows nothing."""


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def crafting(epsilon: float = 0.1, steps: int = 1, generator: torch.Generator | None = None) -> Crafting:
    return Crafting(
        epsilon=epsilon,
        step=2 * epsilon,
        steps=steps,
        norm="linf",
        bounds=(0.0, 1.0),
        generator=generator or drawn(),
    )


class Linear(nn.Module):
    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight.T


def problem(classes: int = 3, pixels: int = 4, n: int = 6) -> tuple[Linear, Tensor, Tensor]:
    weight = torch.randn(classes, pixels, generator=drawn(1), dtype=torch.float64)
    images = 0.3 + 0.4 * torch.rand((n, 1, 2, pixels // 2), generator=drawn(2), dtype=torch.float64)
    return Linear(weight), images, torch.arange(n) % classes


def trained(recipe: Any, width: int = 8, seed: int = 0, **more: Any) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = SmallCNN(width=width)
    recipe(model, digits("train"), seed=seed, device=CPU, progress=silent, **more)
    return model


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return (model(images).argmax(1) == labels).double().mean().item()


def pgd(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float = 0.15) -> Tensor:
    return strongest_nearby(
        model,
        images,
        labels,
        epsilon=epsilon,
        step=epsilon / 4,
        steps=10,
        bounds=(0.0, 1.0),
        generator=drawn(9),
    )


def test_one_update_is_the_gradient_at_the_worst_corner() -> None:
    # Two classes: the worst image in the ball is x - eps * sign of the difference of the two weight rows.
    model, images, _ = problem(classes=2)
    labels = torch.zeros(len(images), dtype=torch.int64)
    before = model.weight.detach().clone()
    worst = images - 0.1 * (before[0] - before[1]).sign().reshape(1, 1, 2, 2)
    copy = Linear(before.clone())
    cross_entropy(copy(worst), labels).backward()
    assert copy.weight.grad is not None
    data = LabelledImages(images, labels, torch.arange(len(images)))
    AdversarialTraining(epsilon=0.1, steps=8, epochs=1, rate=0.5, batch=6, optimiser="sgd")(
        model, data, seed=0, device=CPU, progress=silent
    )
    # Nesterov momentum 0.9 multiplies the first step by 1.9.
    torch.testing.assert_close(model.weight.detach(), before - 0.5 * 1.9 * copy.weight.grad)


def test_fast_is_one_step_of_five_quarters_from_a_random_start(monkeypatch: pytest.MonkeyPatch) -> None:
    made = AdversarialTraining(epsilon=0.1, fast=True)._crafting((0.0, 1.0), drawn())
    assert (made.steps, made.step) == (1, pytest.approx(0.125))
    usual = AdversarialTraining(epsilon=0.1)._crafting((0.0, 1.0), drawn())
    assert (usual.steps, usual.step) == (7, pytest.approx(0.025))
    given = AdversarialTraining(epsilon=0.1, steps=3, step=0.01)._crafting((0.0, 1.0), drawn())
    assert (given.steps, given.step) == (3, 0.01)
    model, images, labels = problem()
    start = made(Linear(torch.zeros_like(model.weight)), images, labels) - images
    assert start.abs().max() <= 0.1 and start.std() > 0.04  # no gradient: what is left is the random start


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_training_examples_stay_in_ball_and_box(norm: Any) -> None:
    model, images, labels = problem()
    images = torch.cat([images, torch.zeros_like(images), torch.ones_like(images)])
    found = strongest_nearby(
        model,
        images,
        labels.repeat(3),
        epsilon=0.2,
        step=0.15,
        steps=5,
        bounds=(0.0, 1.0),
        generator=drawn(),
        norm=norm,
    )
    size = (found - images).flatten(1)
    length = size.abs().amax(1) if norm == "linf" else size.norm(dim=1)
    assert 0.19 < length.max() <= 0.2 + 1e-12
    assert found.min() >= 0 and found.max() <= 1


def test_the_l2_maximum_of_a_linear_model_lies_along_its_weight() -> None:
    weight = torch.tensor([[0.0, 0.0, 0.0, 0.0], [3.0, -4.0, 0.0, 0.0]], dtype=torch.float64)
    images = torch.full((2, 1, 2, 2), 0.5, dtype=torch.float64)
    found = strongest_nearby(
        Linear(weight),
        images,
        torch.tensor([1, 0]),
        epsilon=0.1,
        step=0.1,
        steps=40,
        bounds=(0.0, 1.0),
        generator=drawn(),
        norm="l2",
    )
    along = torch.tensor([0.6, -0.8, 0, 0], dtype=torch.float64)
    expected = torch.stack([0.5 - 0.1 * along, 0.5 + 0.1 * along])
    torch.testing.assert_close(found.flatten(1), expected, atol=1e-6, rtol=0)


def test_the_model_is_attacked_in_eval_mode_and_trained_in_train_mode() -> None:
    seen: list[tuple[bool, bool]] = []

    class Spy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = SmallCNN(width=2)

        def forward(self, images: Tensor) -> Tensor:
            seen.append((self.training, images.requires_grad))
            return self.net(images)

    data = digits("train").select(torch.arange(32))
    AdversarialTraining(epochs=1, batch=32, steps=2)(Spy(), data, seed=0, device=CPU, progress=silent)
    assert seen == [(False, True), (False, True), (True, False)]


@pytest.mark.parametrize("options", [{}, {"fast": True}])
def test_adversarial_training_gives_robustness_that_standard_training_does_not(options: Any) -> None:
    test = digits("test")
    plain = trained(Standard(epochs=6))
    robust = trained(AdversarialTraining(epsilon=0.15, epochs=6, **options))
    accuracies = [
        accuracy(model, pgd(model, test.images, test.labels), test.labels) for model in (plain, robust)
    ]
    assert accuracies[1] > accuracies[0] + 0.3
    assert accuracy(robust, test.images, test.labels) > 0.85


def test_derangements() -> None:
    one, two = (derangement_of(k, 10, drawn()) for k in (1, 2))
    assert one.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
    assert not bool((one == two).any())
    assert derangement_of([1, 2, 0], 3, drawn()).tolist() == [1, 2, 0]
    for seed in range(50):
        d = derangement_of("drawn", 5, drawn(seed))
        assert sorted(d.tolist()) == list(range(5)) and not bool((d == torch.arange(5)).any())
    assert len({tuple(derangement_of("drawn", 10, drawn(s)).tolist()) for s in range(20)}) == 20
    for said, message in ((10, "leaves every one"), ([0, 2, 1], "no derangement"), ([1, 1, 0], "no derang")):
        with pytest.raises(UserError, match=message):
            derangement_of(said, 10 if isinstance(said, int) else 3, drawn())  # type: ignore[arg-type]


def test_the_deranged_loss_by_hand() -> None:
    model, images, labels = problem()
    d = torch.tensor([1, 2, 0])
    loss, right = deranged_losses(model, [], d, crafting(steps=8), clean=0.7)(images, labels)
    generator = drawn()
    targets = (labels + torch.randint(1, 3, (6,), generator=generator)) % 3
    x = crafting(steps=8, generator=generator)(model, images, targets, targeted=True)
    expected = cross_entropy(model(x), d[targets]) + 0.7 * cross_entropy(model(images), labels)
    torch.testing.assert_close(loss, expected)
    assert right == (model(x).argmax(1) == d[targets]).double().mean()
    # x is driven towards its target: the target's logit gains on every other one.
    gain = (model(x) - model(images)).gather(1, targets[:, None])
    assert bool((gain >= (model(x) - model(images)) - 1e-9).all(1).any())


def test_members_with_derangements_of_their_own_err_differently() -> None:
    source = trained(Standard(epochs=3))
    reference = ModelReference(module=source)
    members = [
        trained(
            AdversarialTraining(
                epsilon=0.2, steps=2, epochs=10, diversity="derangement", derangement=k, sources=[reference]
            )
        )
        for k in (1, 2)
    ]
    test = digits("test")
    targets = (test.labels + 1 + torch.arange(len(test)) % 9) % 10
    x = strongest_nearby(
        source,
        test.images,
        targets,
        epsilon=0.2,
        step=0.05,
        steps=7,
        bounds=(0.0, 1.0),
        generator=drawn(),
        targeted=True,
    )
    fooled = accuracy(source, x, targets)
    assert fooled > 0.5
    for k, member in zip((1, 2), members, strict=True):
        assert accuracy(member, test.images, test.labels) > 0.8  # clean images as ever
        assert accuracy(member, x, (targets + k) % 10) > 0.4  # its own answer to the source's examples
        assert accuracy(member, x, targets) < fooled - 0.3


@pytest.mark.parametrize("weighting", ["all", "random", "hardest"])
def test_the_loss_against_public_models_by_hand(weighting: Any) -> None:
    model, images, labels = problem()
    sources = [Linear(torch.randn(3, 4, generator=drawn(s), dtype=torch.float64)) for s in (5, 6)]
    loss, _ = public_models_losses(model, sources, weighting, crafting(), clean=1.0)(images, labels)
    generator = drawn()
    craft = crafting(generator=generator)
    chosen = sources
    if weighting == "random":
        chosen = [sources[int(torch.randint(2, (), generator=generator))]]
    each = torch.stack(
        [cross_entropy(model(craft(s, images, labels)), labels, reduction="none") for s in chosen]
    )
    mixed = each.max(0).values if weighting == "hardest" else each.sum(0) / len(chosen)
    torch.testing.assert_close(loss, mixed.mean() + cross_entropy(model(images), labels))


def test_training_against_a_public_model_withstands_its_examples() -> None:
    test = digits("test")
    public = trained(Standard(epochs=5), seed=1)
    examples = pgd(public, test.images, test.labels, 0.2)
    plain = trained(Standard(epochs=5))
    recipe = AdversarialTraining(
        epsilon=0.2, epochs=5, diversity="public-models", sources=[ModelReference("public")]
    )
    before = {name: tensor.clone() for name, tensor in public.state_dict().items()}
    guarded = trained(recipe, context=TrainingContext({"public": public}))
    assert accuracy(guarded, examples, test.labels) > accuracy(plain, examples, test.labels) + 0.2
    assert all(torch.equal(tensor, before[name]) for name, tensor in public.state_dict().items())
    with pytest.raises(UserError, match="there is no model 'public' here"):
        trained(recipe)


def test_crossing_by_hand() -> None:
    # Row 0 is right, row 1 wrong; softmax of (log 3, 0) is (3/4, 1/4).
    logits = torch.tensor([[math.log(3.0), 0.0], [math.log(3.0), 0.0]], dtype=torch.float64)
    labels = torch.tensor([0, 1])
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    found = crossing(logits, labels, promote=2.0, demote=0.5).item()
    assert found == pytest.approx((2.0 * -math.log(0.75) - 0.5 * entropy) / 2)


def test_the_transfer_penalty_by_hand() -> None:
    first, images, labels = problem()
    members = [first, Linear(torch.randn(3, 4, generator=drawn(7), dtype=torch.float64))]
    loss, _ = transfer_penalty_losses(members, 0.3, 0.6, crafting(), 1.0)(images, labels)
    craft = crafting()
    x = [craft(member, images, labels) for member in members]
    expected = torch.zeros((), dtype=torch.float64)
    for i, j in ((0, 1), (1, 0)):
        f = members[i]
        expected = expected + cross_entropy(f(images), labels) + cross_entropy(f(x[i]), labels)
        expected = expected + crossing(f(x[j]), labels, 0.3, 0.6)
    torch.testing.assert_close(loss, expected)


def test_demoted_members_are_less_sure_of_what_misleads_another() -> None:
    def pair(**weights: float) -> list[nn.Module]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            ensemble = MeanProbabilities([SmallCNN(width=6), SmallCNN(width=6)])
        AdversarialTraining(epsilon=0.2, fast=True, epochs=4, diversity="transfer-penalty", **weights)(
            ensemble, digits("train"), seed=0, device=CPU, progress=silent
        )
        return list(ensemble.members)

    test = digits("test")

    def certainty(members: list[nn.Module]) -> float:
        """How sure a member is of a wrong answer to the other's examples."""
        found = []
        for i, j in ((0, 1), (1, 0)):
            with torch.no_grad():
                x = pgd_of(members[j])
                logits = members[i](x)
            wrong = logits.argmax(1) != test.labels
            found.append(logits[wrong].softmax(1).amax(1))
        return torch.cat(found).mean().item()

    def pgd_of(member: nn.Module) -> Tensor:
        with torch.enable_grad():
            return pgd(member, test.images, test.labels, 0.2)

    assert certainty(pair(promote=0.0, demote=3.0)) < certainty(pair(promote=0.0, demote=0.0)) - 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fast": True, "steps": 3}, "steps: takes one step where `fast` is true"),
        ({"derangement": 1}, 'derangement: belongs to diversity = "derangement"'),
        ({"sources": [ModelReference("a")]}, 'sources: belongs to diversity = "derangement" or diversity'),
        ({"weighting": "all", "diversity": "derangement"}, "weighting: belongs to"),
        ({"diversity": "public-models"}, "sources: .*needs the models"),
        ({"diversity": "derangment"}, "Did you mean 'derangement'"),
        ({"promote": -1.0, "diversity": "transfer-penalty"}, "promote: -1.0 must not be negative"),
        ({"norm": "l3"}, "norm: 'l3' is unknown"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        AdversarialTraining(**options)


def test_models_it_cannot_train_are_refused() -> None:
    data = digits("train").select(torch.arange(8))
    penalty = AdversarialTraining(diversity="transfer-penalty")
    with pytest.raises(MisuseError, match="trains the members of an ensemble together"):
        penalty(SmallCNN(), data, seed=0, device=CPU, progress=silent)
    for recipe in (AdversarialTraining(), Standard()):
        reason: Callable[[nn.Module], str | None] = recipe.why_not
        assert "would change the backbone" in str(reason(Defended(nn.Identity(), SmallCNN())))
