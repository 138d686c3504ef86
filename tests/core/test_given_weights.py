"""Weights of components built in Python, and of models that bring their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import unmask
from unmask import DataEntry, EnsembleEntry, FrontEndEntry, ModelEntry, RecipeEntry, hookimpl
from unmask.data import DeferredImages, LabelledImages
from unmask.errors import UserError
from unmask.manifest.checking import check_manifest
from unmask.manifest.data_section import load_data
from unmask.manifest.reading import parse_manifest
from unmask.manifest.schema import manifest_schema
from unmask.models.building import build_models
from unmask.plugins.catalog import Catalog, using
from unmask.weights import sha256_of_file


class Net(nn.Module):
    def __init__(self, classes: int = 2, pretrained: bool = False) -> None:
        super().__init__()
        self.head = nn.Linear(4, classes)
        self.drop = nn.Dropout(0.5)

    def forward(self, images):
        return self.drop(self.head(images.flatten(1)))


class Pair(nn.Module):
    def __init__(self, members) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)


READ: list[int] = []


def read(position: int) -> torch.Tensor:
    READ.append(position)
    return torch.full((1, 2, 2), position / 100)


def lazy(split: str = "test") -> LabelledImages:
    images = DeferredImages(read, (1, 2, 2), range(100))
    return LabelledImages(images, torch.arange(100) % 5, torch.arange(100))  # type: ignore[arg-type]


def never(model, data, **options) -> None:
    raise AssertionError("trained")


class Plugin:
    @hookimpl
    def unmask_models(self) -> list[ModelEntry]:
        return [ModelEntry("net", "A model.", "None.", Net, recipe={"use": "never"})]

    @hookimpl
    def unmask_front_ends(self) -> list[FrontEndEntry]:
        return [FrontEndEntry("layer", "A layer.", "None.", lambda: nn.Conv2d(1, 1, 1))]

    @hookimpl
    def unmask_ensembles(self) -> list[EnsembleEntry]:
        return [EnsembleEntry("pair", "Two.", "None.", Pair)]

    @hookimpl
    def unmask_data(self) -> list[DataEntry]:
        return [DataEntry("lazy", "Read late.", "None.", lazy)]

    @hookimpl
    def unmask_recipes(self) -> list[RecipeEntry]:
        return [RecipeEntry("never", "Refuses.", "None.", lambda: never)]


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("UNMASK_CACHE", str(tmp_path / "cache"))
    READ.clear()
    with using(Catalog.from_plugins({"tests/plugin": Plugin()})):
        yield


def test_models_front_ends_and_ensembles_take_weights(tmp_path: Path) -> None:
    for kind, source in (("model", Net()), ("front_end", nn.Conv2d(1, 1, 1))):
        file = tmp_path / f"{kind}.pt"
        torch.save({"state_dict": source.state_dict()}, file)
        name = "net" if kind == "model" else "layer"
        built = getattr(unmask, kind)(name, weights=str(file), sha256=sha256_of_file(file))
        assert not built.training
        for key, value in source.state_dict().items():
            assert torch.equal(built.state_dict()[key], value)
    whole = Pair([Net(), Net()])
    torch.save(whole.state_dict(), tmp_path / "pair.pt")
    built = unmask.ensemble("pair", [Net(), Net()], weights=tmp_path / "pair.pt")
    assert torch.equal(built.members[1].head.weight, whole.members[1].head.weight)


def test_wrong_weights_are_refused_where_they_are_named(tmp_path: Path) -> None:
    torch.save(Net(3).state_dict(), tmp_path / "net.pt")
    with pytest.raises(UserError, match="does not fit") as caught:
        unmask.model("net", weights=tmp_path / "net.pt")
    assert caught.value.where == "model('net').weights"
    with pytest.raises(UserError, match="nothing was loaded"):
        unmask.model("net", classes=3, weights=tmp_path / "net.pt", sha256="ab" * 32)
    with pytest.raises(UserError, match="no option 'sha256'"):
        unmask.model("net", sha256="ab" * 32)


def manifest(model: str):
    return parse_manifest(f'epsilons = [0.1]\ndata = "lazy"\n[attacks]\npgd = "pgd"\n[models.m]\n{model}')


def test_a_pretrained_model_is_neither_trained_nor_given_the_datas_classes() -> None:
    built = build_models(manifest('use = "net"\npretrained = true')).models["m"]
    assert built.head.out_features == 2
    assert not READ
    untrained = build_models(manifest('use = "net"'), train=False, leave_untrained=True)
    assert untrained.models["m"].head.out_features == 5
    assert untrained.untrained == ("m",)


def test_a_recipe_may_still_be_given_to_a_pretrained_model() -> None:
    said = manifest('use = "net"\npretrained = true\nrecipe = "never"')
    assert build_models(said, train=False, leave_untrained=True).untrained == ("m",)


def test_only_wanted_images_are_read() -> None:
    said = parse_manifest(
        'epsilons = [0.1]\ndata = { use = "lazy", samples = 3 }\n[attacks]\npgd = "pgd"\n'
        '[models.m]\nuse = "net"'
    )
    data = load_data(said.data, "data", said)
    assert sorted(READ) == data.ids.tolist()
    torch.testing.assert_close(data.images[:, 0, 0, 0], data.ids / 100)
    unread = load_data(said.data, "data", said, read=False)
    assert unread.images.shape == (3, 1, 2, 2)
    assert len(READ) == 3


def test_deferred_images_are_indexed_as_tensors_are() -> None:
    images = DeferredImages(read, (1, 2, 2), range(10))
    mask = torch.zeros(10, dtype=torch.bool)
    mask[[2, 7]] = True
    assert images[mask].tensor()[:, 0, 0, 0].tolist() == pytest.approx([0.02, 0.07])
    twice = images[torch.tensor([5, 3, 9])][torch.tensor([2, 0])]
    assert twice.positions == [9, 5]
    assert images[torch.tensor([], dtype=torch.int64)].tensor().shape == (0, 1, 2, 2)


def test_expected_accuracy_is_in_the_schema_of_every_form() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    check = jsonschema.Draft202012Validator(manifest_schema())
    said = {
        "epsilons": [0.1],
        "data": "lazy",
        "attacks": {"pgd": {"use": "pgd"}},
        "models": {
            "a": {"use": "net", "expected-accuracy": 0.5},
            "b": {"backbone": "a", "front-end": "layer", "expected-accuracy": 0.5},
            "c": {"ensemble": {"use": "pair", "members": ["a"]}, "expected-accuracy": 0.5},
        },
    }
    models = [e for e in check.iter_errors(said) if list(e.path)[:1] == ["models"]]
    assert not models
    said["models"]["a"]["expected-accuracy"] = 50
    assert [e for e in check.iter_errors(said) if list(e.path)[:1] == ["models"]]


def test_a_pretrained_model_needs_no_training_data() -> None:
    with pytest.raises(UserError, match="pgd"):  # no attack is registered here: only then the model is fine
        check_manifest(manifest('use = "net"\npretrained = true'))
