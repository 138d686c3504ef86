from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from unmask import DataEntry, EnsembleEntry, FrontEndEntry, ModelEntry, hookimpl
from unmask.data import LabelledImages
from unmask.errors import MisuseError, UserError
from unmask.evaluation.expectation import Expectation, check_expectations
from unmask.manifest.reading import parse_manifest
from unmask.models.building import build_models
from unmask.models.randomized import RandomizedEnsemble
from unmask.plugins.catalog import Catalog, using
from unmask.running import run_manifest


class Echo(nn.Module):
    """Reads the class off the image's only pixel; wrong about a class it does not know."""

    def __init__(self, known: int = 4) -> None:
        super().__init__()
        self.known = known
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, images):
        read = (images.flatten(1) * 3).round().long() % 4
        read = torch.where(read < self.known, read, (read + 1) % 4)
        return self.scale * nn.functional.one_hot(read[:, 0], 4).float()


def quarters() -> LabelledImages:
    labels = torch.arange(80) % 4
    return LabelledImages(labels.float().reshape(-1, 1, 1, 1) / 3, labels, torch.arange(80), name="quarters")


class Plugin:
    @hookimpl
    def unmask_models(self) -> list[ModelEntry]:
        return [ModelEntry("echo", "Reads the class.", "None.", Echo)]

    @hookimpl
    def unmask_front_ends(self) -> list[FrontEndEntry]:
        return [FrontEndEntry("same", "Nothing.", "None.", nn.Identity)]

    @hookimpl
    def unmask_ensembles(self) -> list[EnsembleEntry]:
        return [EnsembleEntry("randomized", "Draws a member.", "None.", RandomizedEnsemble)]

    @hookimpl
    def unmask_data(self) -> list[DataEntry]:
        return [DataEntry("quarters", "Four classes.", "None.", quarters)]


@pytest.fixture
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("UNMASK_CACHE", str(tmp_path / "cache"))
    with using(Catalog.from_plugins({"tests/plugin": Plugin()})):
        yield


def manifest(models: str):
    return parse_manifest(
        f'epsilons = [0.1]\ndata = "quarters"\n[attacks]\npgd = "pgd"\n{models}', folder=".", file="m.toml"
    )


COMPOSITE = """
[models.m]
backbone = { use = "echo", known = 3, expected-accuracy = 0.75 }
front-end = "same"
expected-accuracy = 0.7
"""
ENSEMBLE = """
[models.full]
use = "echo"
[models.m]
ensemble = { use = "randomized", members = ["full", { use = "echo", known = 2 }] }
expected-accuracy = 0.75
"""


def test_every_form_of_a_model_takes_it(surroundings: None) -> None:
    built = build_models(manifest(COMPOSITE))
    assert [(e.where, e.accuracy) for e in built.expectations] == [
        ("models.m.backbone.expected-accuracy", 0.75),
        ("models.m.expected-accuracy", 0.7),
    ]
    (expectation,) = build_models(manifest(ENSEMBLE)).expectations
    assert expectation.where == "models.m.expected-accuracy"


def test_the_run_stops_before_any_attack(tmp_path: Path) -> None:
    text = """
    epsilons = [0.1]
    data = { use = "digits", samples = 40 }
    [models.m]
    use = "module"
    factory = "only_zeros:Zero"
    expected-accuracy = 0.95
    [attacks]
    pgd = "pgd"
    """
    (tmp_path / "only_zeros.py").write_text(
        "import torch\n"
        "class Zero(torch.nn.Module):\n"
        "    def forward(self, images):\n"
        "        return torch.eye(10)[torch.zeros(len(images), dtype=torch.long)]\n"
    )
    with pytest.raises(UserError, match=r"expected to have a clean accuracy of 0\.95") as caught:
        run_manifest(parse_manifest(text, folder=tmp_path, file="m.toml"), tmp_path / "run", device="cpu")
    assert caught.value.where == "models.m.expected-accuracy"
    assert caught.value.file == "m.toml"
    assert not (tmp_path / "run").exists()


# 60 of 80 right: the 99 % Clopper-Pearson interval is 0.605 to 0.863.
@pytest.mark.parametrize(("accuracy", "holds"), [(0.60, False), (0.61, True), (0.86, True), (0.87, False)])
def test_the_interval_of_the_measured_accuracy_must_hold_it(accuracy: float, holds: bool) -> None:
    expectation = Expectation("m", "models.m.expected-accuracy", Echo(3).eval(), accuracy)
    if holds:
        check_expectations([expectation], quarters())
    else:
        with pytest.raises(UserError, match=r"has 0\.75 on these 80 samples"):
            check_expectations([expectation], quarters())


def test_a_randomised_model_is_measured_by_its_expectation(known) -> None:
    pair = RandomizedEnsemble([Echo(4), Echo(2)]).eval()
    check_expectations([Expectation("m", "w", pair, 0.75)], quarters(), batch_size=7)
    with pytest.raises(UserError, match=r"has 0\.75 on"):
        check_expectations([Expectation("m", "w", pair, 0.95)], quarters())
    labels = torch.zeros(400, dtype=torch.long)
    zeros = LabelledImages(torch.rand(400, 1, 1, 1), labels, torch.arange(400))
    check_expectations([Expectation("m", "w", known.Coin(0.7).eval(), 0.7)], zeros)


@pytest.mark.parametrize(
    ("value", "error", "match"),
    [("75", UserError, "Write 0.75"), ("-0.1", UserError, "fraction"), ('"high"', MisuseError, "number")],
)
def test_what_is_no_fraction_is_refused(value: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        manifest(f'[models.m]\nuse = "echo"\nexpected-accuracy = {value}')
