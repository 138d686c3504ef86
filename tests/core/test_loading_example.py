"""The example plugin: loads, describes itself, and its attacks do what they say."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import unmask
from unmask.options import describe_options
from unmask.plugins.catalog import Catalog, using
from unmask.plugins.loading import Candidate, installed_candidates, load_plugins

ROOT = Path(__file__).parents[1] / "example_plugin"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """The installed plugins and the example, loaded the way its own pyproject announces it."""
    monkeypatch.syspath_prepend(str(ROOT))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ((point, module),) = project["entry-points"]["unmask"].items()
    example = Candidate(
        project["name"], project["version"], point, module, lambda: importlib.import_module(module)
    )
    others = [c for c in installed_candidates() if c.distribution != project["name"]]
    with using(Catalog(load_plugins([*others, example]))) as catalog:
        yield catalog
    for name in [name for name in sys.modules if name.split(".")[0] == "unmask_example"]:
        del sys.modules[name]


def test_it_loads_and_describes_itself(installed: Catalog) -> None:
    assert not [failure for failure in installed.failures if failure.distribution == "unmask-example"]
    provided = installed.find("attack", "example-noise")
    assert (provided.provider, provided.version) == ("unmask-example/attacks", "1.0.0")
    (queries,) = describe_options(provided.builder())
    assert (queries.name, queries.default) == ("queries", 100)
    assert queries.help == "How many corners are tried for every image."
    ascent = unmask.attack("example-ascent", steps=3)
    assert ascent.options == {"steps": 3, "gradient": {"use": "autograd"}}
    assert unmask.attack("example-ascent", gradient="bypass").gradient_name == "bypass"


class Flat(nn.Module):
    """Two classes whose margin is w·x + b."""

    def __init__(self, weight: torch.Tensor, bias: float) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.bias = bias

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        margin = images.flatten(1) @ self.weight + self.bias
        return torch.stack([margin, torch.zeros_like(margin)], 1)


def robust(attack: Any, bias: float) -> float:
    """Robust accuracy of one image of class 0 at 0.5 under weights of +-1, where ε = 0.1 moves w·x by 0.4."""
    weight = torch.tensor([1.0, -1.0, 1.0, -1.0])
    results = unmask.evaluate(
        models={"flat": Flat(weight, bias).eval()},
        images=torch.full((1, 1, 2, 2), 0.5),
        labels=torch.zeros(1, dtype=torch.int64),
        attacks={"a": attack},
        epsilons=[0.1],
        norm="linf",
    )
    return float(results["correct"].squeeze())


@pytest.mark.parametrize("attack", [("example-noise", {"queries": 200}), ("example-ascent", {"steps": 3})])
def test_its_attacks_find_the_worst_corner_of_a_linear_model_and_no_more(
    attack: tuple[str, dict[str, int]],
) -> None:
    name, options = attack
    # 16 corners, 200 tries: the worst one is missed with probability (15/16)**200 < 3e-6.
    assert robust(unmask.attack(name, **options), bias=0.39) == 0.0
    assert robust(unmask.attack(name, **options), bias=0.41) == 1.0
