"""The manifests that come with Unmask hold together, as far as that can be told without data and weights."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import attrs
import jsonschema
import pytest
import torch
import torchvision

from unmask.errors import UserError
from unmask.manifest.checking import build_attacks, check_manifest
from unmask.manifest.data_section import build_data
from unmask.manifest.models_section import parts
from unmask.manifest.reading import read_manifest
from unmask.manifest.resolving import resolve
from unmask.manifest.schema import manifest_schema
from unmask.manifest.spec import CompositeSpec, Manifest, ModelReference, NetworkSpec

ROOT = Path(__file__).parents[2]
PAPER = sorted((ROOT / "manifests" / "paper").glob("*.toml"))
SHIPPED = sorted((ROOT / "manifests").rglob("*.toml"))
BENCH = ROOT / "bench" / "paper_cifar10.toml"
NUMBERED = ("01", "02", "03", "04", "06", "08", "09", "10", "11", "12")


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT / "manifests").with_suffix(""))


@pytest.mark.parametrize("folder", ["paper", "small"])
def test_there_is_one_for_each_table_and_the_figure(folder: str) -> None:
    found = {file.stem for file in SHIPPED if file.parent.name == folder}
    assert found == {"figure-2", *(f"table-{number}" for number in NUMBERED)}
    names = [read_manifest(file).name for file in SHIPPED]
    assert len(set(names)) == len(names), "two runs would share a folder"


@pytest.mark.parametrize("file", SHIPPED, ids=name_of)
def test_everything_in_it_is_known(file: Path) -> None:
    said = read_manifest(file)
    check_manifest(said)
    assert list(build_attacks(said)) == list(said.attacks)


def test_the_published_schema_takes_them() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(json.dumps(manifest_schema())))
    for file in (*SHIPPED, BENCH):
        validator.validate(tomllib.loads(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize("file", PAPER, ids=name_of)
def test_the_settings_are_the_papers(file: Path) -> None:
    said = read_manifest(file)
    on_imagenet = said.data.use == "imagenet"
    assert said.norm == "linf" and said.data.samples == (200 if on_imagenet else 500)
    if file.stem != "figure-2":
        assert said.epsilons == ((4 if on_imagenet else 8) / 255,)
    else:
        assert max(said.epsilons) == 1
    for name, attack in said.attacks.items():
        options = attack.options
        if name == "pgd":
            assert (options["steps"], options["restarts"]) == (50, 5)
        elif name == "bpda-pgd":
            assert (options["steps"], options["restarts"]) == (10, 5)
            assert options["gradient"] == {"use": "bypass"}
        elif name == "zero-order-pgd":
            groups = {"square": 8, "group": 5} if on_imagenet else {"group": 5}
            assert options["steps"] == 10
            assert options["gradient"] == {"use": "finite-difference", **groups}


def networks(said: Manifest) -> Iterator[NetworkSpec]:
    def inside(reference: ModelReference, where: str) -> Iterator[NetworkSpec]:
        if isinstance(reference, NetworkSpec):
            yield reference
        elif not isinstance(reference, str):
            for place, part in parts(reference, where):
                yield from inside(part, place)

    for name, spec in said.models.items():
        yield from inside(spec, f"models.{name}")


def test_the_networks_can_be_built_and_give_one_logit_for_each_class() -> None:
    """On the meta device, which computes shapes and no numbers."""
    built: dict[str, tuple[int, ...]] = {}
    for file in PAPER:
        said = read_manifest(file)
        size, classes = {"cifar10": (32, 10), "cifar100": (32, 100), "imagenet": (224, 1000)}[said.data.use]
        for spec in networks(said):
            options: dict[str, Any] = dict(spec.options)
            weights = options.pop("pretrained", None)
            if weights is not None:
                assert weights in torchvision.models.get_model_weights(options["name"]).__members__
            key = json.dumps([spec.use, options], sort_keys=True)
            if key not in built:
                with torch.device("meta"):
                    network = resolve("model", spec.use, options, "models", said.folder).make().eval()
                    built[key] = tuple(network(torch.zeros(2, 3, size, size)).shape)
            assert built[key] == (2, classes)
    assert len(built) == 14


def test_front_ends_are_the_published_network_and_recipe() -> None:
    for file in PAPER:
        said = read_manifest(file)
        for spec in said.models.values():
            if isinstance(spec, CompositeSpec):
                assert spec.front_end.options == {"depth": 17, "channels": 64}
                assert spec.recipe is not None and spec.recipe.use == "front-end"
                assert spec.recipe.options["rate"] == 1e-6
                radius = 4 if said.data.use == "imagenet" else 8
                assert spec.recipe.options["epsilon"] == f"{radius}/255"


def one_line(file: Path, said: Manifest) -> str:
    with pytest.raises(UserError) as told:
        build_data(said)
    text = str(told.value)
    assert "\n" not in text and file.name in text and "data.path" in text
    return text


@pytest.mark.parametrize("file", PAPER, ids=name_of)
def test_missing_data_are_refused_in_one_line(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = read_manifest(file)
    if said.data.use == "imagenet":
        nowhere = attrs.evolve(said, folder=tmp_path)
        assert "there is no folder" in (text := one_line(file, nowhere)) and "image-net.org" in text
        return

    def unreachable(*_: object, **__: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr(torchvision.datasets.cifar, "download_and_extract_archive", unreachable)
    monkeypatch.setenv("UNMASK_CACHE", str(tmp_path))
    assert "could not be fetched (URLError" in one_line(file, said)
    kept = attrs.evolve(said, data=attrs.evolve(said.data, options={"download": False}))
    assert "Put it there" in one_line(file, kept)


def test_the_bench_names_what_it_misses(tmp_path: Path) -> None:
    said = attrs.evolve(read_manifest(BENCH), folder=tmp_path)
    with pytest.raises(UserError) as told:
        check_manifest(said)
    text = str(told.value)
    assert "\n" not in text and BENCH.name in text and "does not exist" in text
