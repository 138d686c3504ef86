from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import unmask
from unmask.errors import UserError
from unmask_plugins.models.cifar_resnet import Basic, CifarResNet
from unmask_plugins.models.wide_resnet import WideResNet


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


# He et al. 2016, table 6: 0.27, 0.46, 0.66, 0.85 and 1.7 million; the larger ones by adding up table 1.
@pytest.mark.parametrize(
    ("depth", "size"),
    [
        (20, 269_722),
        (32, 464_154),
        (44, 658_586),
        (56, 853_018),
        (110, 1_727_962),
        (18, 11_173_962),
        (34, 21_282_122),
        (50, 23_520_842),
    ],
)
def test_sizes_are_the_published_ones(depth: int, size: int) -> None:
    with torch.device("meta"):
        assert count(CifarResNet(depth)) == size


def test_wrn_28_10_has_36_5_million_parameters() -> None:
    with torch.device("meta"):
        assert count(WideResNet(28, 10)) == 36_479_194
        assert count(WideResNet(16, 4)) == 2_748_890


def test_deepest_forms_have_as_many_convolutions_as_their_names_say() -> None:
    with torch.device("meta"):
        for depth in (101, 152):
            names = [
                name
                for name, layer in CifarResNet(depth).named_modules()
                if isinstance(layer, nn.Conv2d | nn.Linear) and "shortcut" not in name
            ]
            assert len(names) == depth


def test_option_a_drops_every_second_pixel_and_adds_channels_of_zeros() -> None:
    block = Basic(2, 4, stride=2).eval()
    for layer in (block.conv1, block.conv2):
        nn.init.zeros_(layer.weight)
    x = torch.rand(3, 2, 6, 6)
    y = block(x)
    assert torch.equal(y[:, 1:3], x[:, :, ::2, ::2])
    assert not y[:, 0].any()
    assert not y[:, 3].any()


@given(
    depth=st.sampled_from([8, 14, 20]),
    channels=st.integers(1, 3),
    classes=st.integers(2, 5),
    side=st.sampled_from([8, 9, 32]),
)
@settings(max_examples=10, deadline=None)
def test_any_size_of_images_gives_logits(depth: int, channels: int, classes: int, side: int) -> None:
    network = CifarResNet(depth, classes, channels).eval()
    assert network(torch.rand(2, channels, side, side)).shape == (2, classes)
    wide = WideResNet(10, 1, classes, channels).eval()
    assert wide(torch.rand(2, channels, side, side)).shape == (2, classes)


@pytest.mark.parametrize("build", [lambda **o: CifarResNet(8, **o), lambda **o: WideResNet(10, 1, **o)])
def test_normalisation_is_inside_and_not_among_the_weights(build) -> None:
    torch.manual_seed(0)
    plain, images = build().eval(), torch.rand(2, 3, 8, 8)
    inside = build(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4)).eval()
    inside.load_state_dict(plain.state_dict())
    mean, std = (torch.tensor(v)[:, None, None] for v in ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)))
    torch.testing.assert_close(inside(images), plain((images - mean) / std))


def test_weights_with_the_prefix_of_data_parallel_are_loaded_by_name(tmp_path: Path) -> None:
    torch.manual_seed(0)
    source = CifarResNet(8).eval()
    state = {f"module.{name}": value for name, value in source.state_dict().items()}
    torch.save({"state_dict": state, "best_prec1": 90.0}, tmp_path / "weights.th")
    loaded = unmask.model("cifar-resnet", depth=8, weights=tmp_path / "weights.th")
    images = torch.rand(2, 3, 8, 8)
    assert not loaded.training
    assert torch.equal(loaded(images), source(images))
    with pytest.raises(UserError, match="sha256"):
        unmask.model("cifar-resnet", depth=8, weights=tmp_path / "weights.th", sha256="0" * 64)
    with pytest.raises(UserError, match="does not fit"):
        unmask.model("cifar-resnet", depth=14, weights=tmp_path / "weights.th")


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"depth": 19}, "depth"),
        ({"depth": 2}, "depth"),
        ({"classes": 1}, "classes"),
        ({"image_channels": 0}, "image_channels"),
        ({"mean": (0.5, 0.5)}, "mean"),
        ({"std": (0.5, 0.0, 0.5)}, "std"),
    ],
)
def test_options_out_of_range_are_refused(options, where: str) -> None:
    with pytest.raises(UserError) as caught:
        unmask.model("cifar-resnet", **options)
    assert where in str(caught.value)


def test_a_wide_resnet_of_no_such_depth_is_refused() -> None:
    with pytest.raises(UserError, match="6n \\+ 4"):
        WideResNet(29, 1)
