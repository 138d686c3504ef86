"""Ensembles of diversely trained members, as manifests say them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from unmask.cli.main import main
from unmask.errors import UserError
from unmask.manifest.checking import check_manifest
from unmask.manifest.reading import parse_manifest
from unmask.manifest.schema import manifest_schema
from unmask.manifest.spec import Manifest
from unmask.models.building import build_models

HEAD = 'epsilons = ["8/255"]\ndata = { use = "digits", samples = 20 }\n[attacks]\npgd = "pgd"\n'

DERANGED = """
[models.plain]
use = "small-cnn"
width = 2
recipe = { use = "standard", epochs = 1 }

[models.three]
ensemble = { use = "majority", members = [
  { use = "small-cnn", width = 2, recipe = { use = "adversarial", epochs = 1, steps = 1, diversity = "derangement", derangement = 1, sources = ["plain"] } },
  { use = "small-cnn", width = 2, recipe = { use = "adversarial", epochs = 1, steps = 1, diversity = "derangement", derangement = 2, sources = ["plain"], seed = 1 } },
  { use = "small-cnn", width = 2, recipe = { use = "adversarial", epochs = 1, steps = 1, diversity = "derangement", derangement = [1, 0, 3, 2, 5, 4, 7, 6, 9, 8], seed = 2 } },
] }
"""  # noqa: E501

TOGETHER = """
[models.plain]
use = "small-cnn"
width = 2
recipe = { use = "standard", epochs = 1 }

[models.pair]
ensemble = { use = "randomized", members = ["plain", { use = "small-cnn", width = 2 }] }
recipe = { use = "adversarial", fast = true, epochs = 1, diversity = "transfer-penalty", demote = 0.5 }

[models.copies]
ensemble = { use = "mean-probabilities", members = [{ use = "small-cnn", width = 2 }], copies = 2 }
recipe = { use = "adversarial", fast = true, epochs = 1, diversity = "transfer-penalty" }
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("UNMASK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "trained"


def manifest(models: str) -> Manifest:
    read = parse_manifest(HEAD + models, file="m.toml")
    check_manifest(read)
    return read


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_members_with_derangements_and_seeds_of_their_own() -> None:
    built = build_models(manifest(DERANGED))
    assert list(built.trained) == ["plain", *(f"three, member {i}" for i in (1, 2, 3))]
    members = list(built.models["three"].members)  # type: ignore[arg-type]
    assert len({tuple(weights(member).tolist()) for member in members}) == 3
    assert build_models(manifest(DERANGED)).trained == {}
    # Other weights of a source make another recipe of it; the third member has no source.
    again = build_models(manifest(DERANGED.replace('"standard", epochs = 1', '"standard", epochs = 2')))
    assert list(again.trained) == ["plain", "three, member 1", "three, member 2"]
    told = built.descriptions["three"]["members"][1]["trained"]["recipe"]["options"]
    assert (told["derangement"], told["sources"]) == (2, ["plain"])


def test_a_seed_changes_start_and_training_and_nothing_else() -> None:
    models = '[models.a]\nuse = "small-cnn"\nwidth = 2\nrecipe = { use = "standard", epochs = 1%s }\n'
    found = [
        build_models(manifest(models % seed)).models["a"].state_dict()
        for seed in ("", ", seed = 0", ", seed = 1")
    ]
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
    assert not torch.equal(found[0]["head.weight"], found[2]["head.weight"])


def test_members_trained_together_leave_the_models_they_start_from_alone(cache: Path) -> None:
    built = build_models(manifest(TOGETHER))
    assert list(built.trained) == ["plain", "pair", "copies"]
    alone = build_models(manifest(TOGETHER.partition("[models.pair]")[0])).models["plain"]
    assert torch.equal(weights(built.models["plain"]), weights(alone))
    first = built.models["pair"].members[0]  # type: ignore[union-attr,index]
    assert first is not built.models["plain"]
    assert not torch.equal(weights(first), weights(alone))
    one, two = built.models["copies"].members  # type: ignore[misc,union-attr]
    assert not torch.equal(weights(one), weights(two))
    again = build_models(manifest(TOGETHER))
    assert again.trained == {} and again.descriptions == built.descriptions
    for name in ("pair", "copies"):
        assert torch.equal(weights(again.models[name]), weights(built.models[name]))
    assert "trained" in built.descriptions["pair"] and len(built.descriptions["pair"]["members"]) == 2


def test_a_denoiser_is_trained_once_whatever_stands_behind_it() -> None:
    built = build_models(
        manifest(
            "".join(
                f'[models.{name}]\nbackbone = {{ use = "small-cnn", width = {width}, recipe = {{ use = '
                '"standard", epochs = 1 } }\nfront-end = { use = "dncnn", depth = 3, channels = 2 }\n'
                'recipe = { use = "denoising", epochs = 1 }\n'
                for name, width in (("a", 2), ("b", 3))
            )
        )
    )
    assert list(built.trained) == ["a, backbone", "a", "b, backbone"]
    assert torch.equal(weights(built.models["a"].front_end), weights(built.models["b"].front_end))  # type: ignore[arg-type]


ONE = '[models.a]\nuse = "small-cnn"\nrecipe = { use = "adversarial", %s }\n'


@pytest.mark.parametrize(
    ("models", "where", "message"),
    [
        (ONE % "epsilom = 1", "models.a.recipe", "Did you mean 'epsilon'"),
        (ONE % 'diversity = "derangment"', "models.a.recipe.diversity", "Did you mean 'derangement'"),
        (ONE % 'diversity = "public-models"', "models.a.recipe.sources", "needs the models"),
        (ONE % 'sources = ["b"]', "models.a.recipe.sources", "belongs to diversity"),
        (
            ONE % 'diversity = "public-models", sources = ["aa"]',
            "models.a.recipe.sources",
            "Did you mean 'a'",
        ),
        (ONE % 'diversity = "public-models", sources = ["a"]', "models.a.recipe.sources", "circle: a -> a"),
        (ONE % "seed = -1", "models.a.recipe.seed", "at least 0"),
    ],
)
def test_mistakes_are_answered_before_anything_is_built(models: str, where: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        manifest(models)
    assert refused.value.where == where


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (ONE % 'diversity = "transfer-penalty"', "table of an ensemble with two members"),
        (
            '[models.a]\nbackbone = { use = "small-cnn" }\nfront-end = { use = "identity" }\n'
            'recipe = { use = "adversarial" }\n',
            "would change the backbone",
        ),
        (
            '[models.a]\nensemble = { use = "majority", members = [{ use = "small-cnn" }, '
            '{ use = "small-cnn" }] }\nrecipe = { use = "standard" }\n',
            "one and the same model would be trained to stay so",
        ),
    ],
)
def test_models_that_a_recipe_cannot_train_are_refused_by_check(models: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_models(manifest(models), train=False, leave_untrained=True)


def test_show_and_schema_know_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["show", "recipe", "adversarial"])
    shown = capsys.readouterr().out
    for option in ("diversity", "derangement", "sources", "promote", "fast", "seed", "data"):
        assert option in shown
    schema = manifest_schema()
    jsonschema = pytest.importorskip("jsonschema")
    import tomllib

    for models in (DERANGED, TOGETHER):
        jsonschema.validate(tomllib.loads(HEAD + models), schema)
