from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from unmask.errors import UserError
from unmask_plugins.front_ends.dncnn import DnCNN


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_17_layers_of_64_channels_have_the_published_size() -> None:
    # (9*1*64 + 64) + 15 * (9*64*64 + 2*64) + 9*64*1, as the paper's table of layers gives it.
    assert count(DnCNN(image_channels=1)) == 556_096
    assert count(DnCNN(image_channels=3)) == 558_400


@given(depth=st.integers(2, 6), channels=st.integers(1, 5), image_channels=st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_size_and_layers_follow_depth_and_width(depth: int, channels: int, image_channels: int) -> None:
    network = DnCNN(depth, channels, image_channels)
    middle = (depth - 2) * (9 * channels**2 + 2 * channels)
    assert count(network) == 9 * image_channels * channels + channels + middle + 9 * channels * image_channels
    assert sum(isinstance(layer, nn.Conv2d) for layer in network.stack) == depth
    assert network(torch.rand(2, image_channels, 5, 7)).shape == (2, image_channels, 5, 7)


def test_skip_subtracts_what_the_stack_computes() -> None:
    network = DnCNN(3, 4, 1).eval()
    images = torch.rand(3, 1, 6, 6)
    r = network.stack(images)
    assert r.abs().max() > 0
    torch.testing.assert_close(network(images), images - r)
    network.skip = False
    torch.testing.assert_close(network(images), r)


def test_initial_weights_are_orthogonal_and_biases_zero() -> None:
    network = DnCNN(4, 8, 3)
    for layer in network.stack:
        if isinstance(layer, nn.Conv2d):
            rows = layer.weight.detach().flatten(1)
            torch.testing.assert_close(rows @ rows.T, torch.eye(len(rows)), rtol=0, atol=1e-5)
    assert torch.count_nonzero(network.stack[0].bias) == 0


def test_he_initialisation_has_the_variance_of_the_paper_it_cites() -> None:
    torch.manual_seed(0)
    network = DnCNN(3, 64, 1, initialisation="he")
    middle = network.stack[2].weight
    assert middle.std().item() == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.03)


@given(residual=st.floats(1e-3, 10.0), depth=st.integers(2, 9), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_calibration_meets_the_wanted_residual_exactly(residual: float, depth: int, seed: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = DnCNN(depth, 4, 1, residual=residual).double().eval()
        images = torch.rand(20, 1, 8, 8, dtype=torch.float64)
    network.calibrate(images)
    r = images - network(images)
    assert r.square().mean().sqrt().item() == pytest.approx(residual, rel=1e-9)


def test_calibration_takes_batchnorm_statistics_of_the_clean_images() -> None:
    network = DnCNN(5, 4, 1, residual=0.1).double()
    images = torch.rand(30, 1, 8, 8, dtype=torch.float64)
    network.calibrate(images)
    seen: list[torch.Tensor] = []
    norms = [layer for layer in network.stack if isinstance(layer, nn.BatchNorm2d)]
    handles = [norm.register_forward_pre_hook(lambda _, given: seen.append(given[0])) for norm in norms]
    network.train()
    network(images)
    for handle in handles:
        handle.remove()
    calibrated = copy.deepcopy(network)
    for norm, activation in zip(calibrated.stack[3::3], seen, strict=True):
        # One more training pass with momentum 0.1 over the same images must not move the statistics.
        torch.testing.assert_close(norm.running_mean, activation.mean((0, 2, 3)))
        torch.testing.assert_close(norm.running_var, activation.var((0, 2, 3)))


def test_calibration_restores_modes_and_momentum() -> None:
    network = DnCNN(4, 4, 1, momentum=0.3)
    network.stack[3].eval()
    modes = [layer.training for layer in network.stack]
    network.calibrate(torch.rand(5, 1, 8, 8))
    assert [layer.training for layer in network.stack] == modes
    assert network.stack[6].momentum == 0.3
    assert all(parameter.grad is None and parameter.requires_grad for parameter in network.parameters())


def test_without_a_wanted_residual_calibration_leaves_the_weights() -> None:
    network = DnCNN(4, 4, 1)
    before = network.last.weight.detach().clone()
    network.calibrate(torch.rand(5, 1, 8, 8))
    assert torch.equal(network.last.weight, before)


def test_calibration_without_images_or_residual_is_refused() -> None:
    with pytest.raises(UserError, match="at least one clean image"):
        DnCNN(3, 4, 1).calibrate(torch.rand(0, 1, 8, 8))
    silent = DnCNN(3, 4, 1, residual=0.1)
    nn.init.zeros_(silent.last.weight)
    with pytest.raises(UserError, match="root mean square 0"):
        silent.calibrate(torch.rand(4, 1, 8, 8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 1}, "depth: 1 must be at least 2"),
        ({"channels": 0}, "channels: 0 must be at least 1"),
        ({"residual": -0.1}, "residual: -0.1 must be a positive number"),
        ({"residual": float("nan")}, "residual: nan must be a positive number"),
        ({"initialisation": "xavier"}, "initialisation: 'xavier' is neither"),
        ({"eps": 0.0}, "eps: 0.0 must be positive"),
        ({"momentum": 1.5}, "momentum: 1.5 must lie above 0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DnCNN(**options)  # type: ignore[arg-type]
