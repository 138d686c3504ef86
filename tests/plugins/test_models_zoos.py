from __future__ import annotations

from pathlib import Path
from urllib.error import URLError

import pytest
import torch
from torch.nn.functional import interpolate

import unmask
from unmask.errors import UserError
from unmask_plugins.models import timm_zoo, torchvision_zoo


def normalised(images, mean, std):
    return (images - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]


IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def test_timm_brings_its_own_normalisation_and_size() -> None:
    import timm

    model = unmask.model("timm", name="test_resnet.r160_in1k", classes=4)
    config = timm.get_pretrained_cfg("test_resnet.r160_in1k")
    bare = timm.create_model("test_resnet", num_classes=4).eval()
    bare.load_state_dict(model.state_dict())
    side = config.input_size[-1]
    images = torch.rand(2, 3, side, side)
    torch.testing.assert_close(model(images), bare(normalised(images, config.mean, config.std)))
    small = torch.rand(2, 3, 32, 32)
    resized = interpolate(
        small, size=(side, side), mode=config.interpolation, align_corners=False, antialias=True
    )
    torch.testing.assert_close(model(small), bare(normalised(resized, config.mean, config.std)))


@pytest.mark.parametrize("name", ["vit_tiny", "vit_small", "vit_base"])
def test_vision_transformers_for_small_images(name: str) -> None:
    model = unmask.model("timm", name=f"{name}_patch16_224", classes=10, img_size=32, patch_size=8)
    assert model.patch_embed.num_patches == 16
    assert not model.training
    seen = []
    model.patch_embed.register_forward_hook(lambda _, inputs, out: seen.append(inputs[0].shape))
    with torch.no_grad():
        assert model(torch.rand(1, 3, 32, 32)).shape == (1, 10)
    assert seen == [(1, 3, 32, 32)]


def test_timm_takes_grey_images_and_other_statistics() -> None:
    model = unmask.model(
        "timm", name="test_resnet", classes=3, image_channels=1, size=16, mean=[0.5], std=[2]
    )
    assert model(torch.rand(2, 1, 8, 8)).shape == (2, 3)
    assert model.unmask_preprocessing[1].std.item() == 2
    default = unmask.model("timm", name="test_resnet", classes=3, image_channels=1, size=16)
    assert default.unmask_preprocessing[1].mean.shape == (1, 1, 1)


def test_timm_weights_are_named_as_timm_names_them(tmp_path: Path) -> None:
    import timm

    bare = timm.create_model("test_resnet", num_classes=3)
    torch.save(bare.state_dict(), tmp_path / "w.pt")
    model = unmask.model("timm", name="test_resnet", classes=3, weights=tmp_path / "w.pt")
    assert torch.equal(model.state_dict()["conv1.0.weight"], bare.state_dict()["conv1.0.weight"])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"name": "resnet81"}, "Did you mean 'resnet"),
        ({"name": "test_resnet", "colour": 3}, "colour"),
        ({"name": "test_resnet", "num_classes": 3}, "called 'classes'"),
        ({"name": "test_resnet", "size": 0}, "at least 1"),
        ({"name": "test_resnet", "classes": 0}, "no classifier"),
        ({"name": "test_resnet", "mean": [0.1, 0.2]}, "2 values"),
    ],
)
def test_timm_refuses_in_words(options, match: str) -> None:
    with pytest.raises(UserError, match=match):
        unmask.model("timm", **options)


def test_a_hub_out_of_reach_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    import timm
    import torchvision

    def unreachable(*arguments, **options):
        raise URLError("Name or service not known")

    monkeypatch.setattr(timm, "create_model", unreachable)
    with pytest.raises(UserError, match="could not be fetched") as caught:
        timm_zoo.timm_model("resnet18", pretrained=True)
    assert caught.value.where == "pretrained"
    monkeypatch.setattr(torchvision.models, "get_model", unreachable)
    with pytest.raises(UserError, match="could not be fetched"):
        torchvision_zoo.torchvision_model("resnet18", pretrained=True)


def test_torchvision_brings_its_own_normalisation_and_size() -> None:
    import torchvision

    model = unmask.model("torchvision", name="squeezenet1_1", classes=4)
    bare = torchvision.models.squeezenet1_1(num_classes=4).eval()
    bare.load_state_dict(model.state_dict())
    images = torch.rand(1, 3, 48, 48)
    large = interpolate(images, size=(224, 224), mode="bilinear", align_corners=False, antialias=True)
    with torch.no_grad():
        torch.testing.assert_close(model(images), bare(normalised(large, **IMAGENET)))
    small = unmask.model("torchvision", name="squeezenet1_1", classes=4, size=48)
    small.load_state_dict(bare.state_dict())
    torch.testing.assert_close(small(images), bare(normalised(images, **IMAGENET)))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"name": "resnet81"}, "Did you mean 'resnet"),
        ({"name": "fasterrcnn_resnet50_fpn"}, "no classifier"),
        ({"name": "resnet18", "colour": 3}, "colour"),
        ({"name": "resnet18", "pretrained": "IMAGENET1K_V7"}, "IMAGENET1K_V1"),
        ({"name": "resnet18", "pretrained": True, "classes": 7}, "1000 classes"),
    ],
)
def test_torchvision_refuses_in_words(options, match: str) -> None:
    with pytest.raises(UserError, match=match):
        unmask.model("torchvision", **options)
