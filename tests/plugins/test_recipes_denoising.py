from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unmask.data import LabelledImages
from unmask.errors import UserError
from unmask.models.defended import Defended
from unmask_plugins.data.digits import digits
from unmask_plugins.front_ends.dncnn import DnCNN
from unmask_plugins.models.small_cnn import SmallCNN
from unmask_plugins.recipes.denoising import Denoising

CPU = torch.device("cpu")


def silent(what: str, done: int, total: int) -> None:
    """A progress callback that shows nothing."""


class Scale(nn.Module):
    """D(y) = a y."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, images: Tensor) -> Tensor:
        return self.a * images


def test_the_best_scale_of_noisy_images_is_the_wiener_one() -> None:
    # The minimum of E (x - a (x + n))^2 is at E x^2 / (E x^2 + sigma^2).
    images = torch.rand((400, 1, 4, 4), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data = LabelledImages(images, torch.zeros(400, dtype=torch.int64), torch.arange(400))
    front_end = Scale()
    Denoising(sigma=0.5, epochs=60, rate=0.05)(front_end, data, seed=0, device=CPU, progress=silent)
    power = images.square().mean().item()
    assert front_end.a.item() == pytest.approx(power / (power + 0.25), abs=0.02)


def test_a_dncnn_learns_to_remove_noise_and_the_backbone_is_left_alone() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Defended(DnCNN(depth=4, channels=12, image_channels=1), SmallCNN(width=2))
    backbone = {name: tensor.clone() for name, tensor in model.backbone.state_dict().items()}
    Denoising(sigma=0.2, epochs=15, rate=5e-3)(model, digits("train"), seed=0, device=CPU, progress=silent)
    clean = digits("test").images
    noisy = clean + 0.2 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        left = (model.front_end(noisy) - clean).square().mean().item()
    assert left < 0.5 * 0.2**2
    assert all(torch.equal(tensor, backbone[name]) for name, tensor in model.backbone.state_dict().items())
    assert not any(part.training for part in model.modules())


def test_blind_levels_lie_between_the_two() -> None:
    levels = Denoising(sigma=0.2, least_sigma=0.1)._levels(500, torch.Generator().manual_seed(0))
    assert levels.shape == (500, 1, 1, 1)
    assert 0.1 <= levels.min() < 0.11 and 0.19 < levels.max() <= 0.2
    assert Denoising(sigma=0.2)._levels(2, torch.Generator()).flatten().tolist() == pytest.approx([0.2] * 2)


def test_what_it_cannot_train_is_refused() -> None:
    data = digits("train").select(torch.arange(8))

    def run(model: nn.Module) -> None:
        Denoising(epochs=1)(model, data, seed=0, device=CPU, progress=silent)

    with pytest.raises(UserError, match="trains front ends"):
        run(SmallCNN())
    with pytest.raises(UserError, match="nothing to train"):
        run(Defended(nn.Identity(), SmallCNN()))
    with pytest.raises(UserError, match="`residual` is set by the calibration"):
        run(DnCNN(depth=3, channels=2, image_channels=1, residual=0.1))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"sigma": 0.0}, "sigma: 0.0 must be a positive"), ({"least_sigma": 0.5}, "must not exceed `sigma`")],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Denoising(**options)
