from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

from unmask.data import LabelledImages
from unmask.errors import MisuseError, UserError
from unmask.models.defended import Defended
from unmask.training import TrainingContext
from unmask_plugins.data.digits import digits
from unmask_plugins.front_ends.dncnn import DnCNN
from unmask_plugins.models.small_cnn import SmallCNN
from unmask_plugins.recipes.front_end import FrontEndTraining
from unmask_plugins.recipes.inner_maximisation import strongest_nearby
from unmask_plugins.recipes.standard import Standard

CPU = torch.device("cpu")


def silent(what: str, done: int, total: int) -> None:
    """A progress callback that shows nothing."""


def few(count: int = 64) -> LabelledImages:
    return digits("train").select(torch.arange(count))


def composite(seed: int = 0, **options: Any) -> Defended:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Defended(
            DnCNN(**{"depth": 5, "channels": 4, "image_channels": 1, **options}), SmallCNN(width=4)
        )


def linear(weight: torch.Tensor) -> nn.Module:
    """Two classes whose difference of logits is `weight` times the image."""
    layer = nn.Linear(weight.numel(), 2, bias=False).to(weight.dtype)
    layer.weight.data = torch.stack([torch.zeros_like(weight), weight])
    return nn.Sequential(nn.Flatten(), layer)


def test_the_inner_maximum_of_a_linear_model_is_the_corner_of_the_ball() -> None:
    weight = torch.tensor([1.0, -2.0, 0.5, -0.1], dtype=torch.float64)
    images = torch.full((3, 1, 2, 2), 0.5, dtype=torch.float64)
    images[2] = 0.0
    labels = torch.tensor([1, 0, 1])
    found = strongest_nearby(
        linear(weight),
        images,
        labels,
        epsilon=0.1,
        step=0.05,
        steps=8,
        bounds=(0.0, 1.0),
        generator=torch.Generator().manual_seed(0),
    )
    direction = torch.where(labels == 1, -1.0, 1.0).reshape(3, 1) * weight.sign()
    expected = (images.flatten(1) + 0.1 * direction).clamp(0, 1)
    torch.testing.assert_close(found.flatten(1), expected)
    assert not found.requires_grad


def test_only_the_front_end_is_trained() -> None:
    model = composite()
    backbone = {name: tensor.clone() for name, tensor in model.backbone.state_dict().items()}
    front_end = {name: tensor.clone() for name, tensor in model.front_end.state_dict().items()}
    FrontEndTraining(rate=1e-3)(model, few(), seed=0, device=CPU, progress=silent)
    assert all(torch.equal(tensor, backbone[name]) for name, tensor in model.backbone.state_dict().items())
    changed = {
        name
        for name, tensor in model.front_end.state_dict().items()
        if not torch.equal(tensor, front_end[name])
    }
    assert changed == set(front_end)


def test_flags_gradients_and_modes_are_restored() -> None:
    model = composite().train()
    model.backbone.head.bias.requires_grad_(False)
    model.front_end.last.weight.requires_grad_(False)
    FrontEndTraining()(model, few(), seed=0, device=CPU, progress=silent)
    assert not any(part.training for part in model.modules())
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert frozen == {"backbone.head.bias", "front_end.stack.11.weight"}
    assert all(parameter.grad is None for parameter in model.parameters())


def test_same_seed_same_weights_and_the_global_state_stays() -> None:
    trained = []
    for state, seed in ((1, 5), (2, 5), (1, 6)):
        model = composite(residual=0.05)
        torch.manual_seed(state)
        before = torch.get_rng_state()
        FrontEndTraining(rate=1e-3, calibrate=32)(model, few(), seed=seed, device=CPU, progress=silent)
        assert torch.equal(torch.get_rng_state(), before)
        trained.append(model.state_dict())
    assert all(torch.equal(trained[0][name], trained[1][name]) for name in trained[0])
    assert any(not torch.equal(trained[0][name], trained[2][name]) for name in trained[0])


def test_calibration_comes_first_and_sets_the_residual() -> None:
    model = composite(residual=0.05)
    data = few()
    # So small a rate cannot move a weight: what is left is calibration and BatchNorm's running statistics.
    FrontEndTraining(rate=1e-30, updates=1, steps=1)(model, data, seed=0, device=CPU, progress=silent)
    with torch.no_grad():
        r = data.images - model.front_end(data.images)
    assert r.square().mean().sqrt().item() == pytest.approx(0.05, rel=0.2)


def test_a_front_end_without_a_wanted_residual_is_not_calibrated() -> None:
    calls = []

    class Spy(DnCNN):
        def calibrate(self, images: torch.Tensor) -> None:
            calls.append(len(images))

    def spied(**options: Any) -> Defended:
        return Defended(Spy(depth=2, channels=2, image_channels=1, **options), SmallCNN(width=4))

    FrontEndTraining()(spied(), few(), seed=0, device=CPU, progress=silent)
    assert calls == []
    FrontEndTraining()(spied(residual=0.1), few(), seed=0, device=CPU, progress=silent)
    FrontEndTraining(calibrate=10)(spied(), few(), seed=0, device=CPU, progress=silent)
    assert calls == [64, 10]


def test_at_most_one_epoch_of_full_batches() -> None:
    seen = []
    data = few(70)
    FrontEndTraining(steps=1)(composite(), data, seed=0, device=CPU, progress=lambda *call: seen.append(call))
    assert seen == [("training the front end", 1, 2), ("training the front end", 2, 2)]
    seen.clear()
    FrontEndTraining(steps=1, updates=1)(
        composite(), data, seed=0, device=CPU, progress=lambda *call: seen.append(call)
    )
    assert seen == [("training the front end", 1, 1)]
    with pytest.raises(UserError, match=r"3 updates of 32 images need 96 training images.*there are 70"):
        FrontEndTraining(updates=3)(composite(), data, seed=0, device=CPU, progress=silent)
    with pytest.raises(UserError, match="there are 20"):
        FrontEndTraining()(composite(), few(20), seed=0, device=CPU, progress=silent)


def test_models_it_cannot_train_are_refused() -> None:
    with pytest.raises(MisuseError, match="not a bare SmallCNN"):
        FrontEndTraining()(SmallCNN(), few(), seed=0, device=CPU, progress=silent)
    with pytest.raises(UserError, match="nothing to train"):
        FrontEndTraining()(Defended(nn.Identity(), SmallCNN()), few(), seed=0, device=CPU, progress=silent)
    with pytest.raises(UserError, match="residual` without effect"):
        FrontEndTraining(calibrate=0)(composite(residual=0.1), few(), seed=0, device=CPU, progress=silent)
    with pytest.raises(UserError, match="100 clean images are asked for; there are 64"):
        FrontEndTraining(calibrate=100)(composite(), few(), seed=0, device=CPU, progress=silent)
    plain = Defended(nn.Conv2d(1, 1, 3, padding=1), SmallCNN())
    with pytest.raises(UserError, match="has no method `calibrate"):
        FrontEndTraining(calibrate=10)(plain, few(), seed=0, device=CPU, progress=silent)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon: 0.0 must be a positive number"),
        ({"steps": 0}, "steps: 0 must be at least 1"),
        ({"step": -1.0}, "step: -1.0 must be a positive number"),
        ({"updates": 0}, "updates: 0 must be at least 1"),
        ({"calibrate": -1}, "calibrate: -1 must not be negative"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        FrontEndTraining(**options)


class Losses:
    """Stands for a log."""

    def __init__(self) -> None:
        self.told: list[float] = []

    def write(self, measured: Mapping[str, Any]) -> None:
        self.told.append(measured["loss"])


def test_without_its_skip_connection_a_front_end_makes_no_progress_at_the_tiny_rate() -> None:
    """The paper's ablation: at this rate only a front end that starts as all but the identity can serve."""
    data, test = digits("train"), digits("test")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        backbone = SmallCNN(width=8)
    Standard(epochs=5)(backbone, data, seed=0, device=CPU, progress=silent)

    def trained(rate: float, **options: Any) -> tuple[float, float, float]:
        """Accuracy after training, and the mean loss of the first and the last eight updates."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            model = Defended(DnCNN(depth=6, channels=8, image_channels=1, **options), backbone)
        log = Losses()
        FrontEndTraining(rate=rate, steps=2, epsilon=0.05)(
            model, data, seed=0, device=CPU, progress=silent, context=TrainingContext(log=log)
        )
        with torch.no_grad():
            accuracy = (model(test.images).argmax(1) == test.labels).double().mean().item()
        return accuracy, sum(log.told[:8]) / 8, sum(log.told[-8:]) / 8

    chance = math.log(10)
    accuracy, first, last = trained(1e-6, skip=False)
    assert accuracy < 0.25 and first > chance and last > 0.9 * first
    accuracy, _, _ = trained(1e-6, residual=0.04)
    assert accuracy > 0.75
    # It is the rate, not the network: with a larger one the whole image is drawn well enough.
    accuracy, first, last = trained(1e-2, skip=False)
    assert accuracy > 0.7 and last < 0.3 * first
