from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unmask import DataEntry, EnsembleEntry, FrontEndEntry, ModelEntry, RecipeEntry, hookimpl
from unmask.data import LabelledImages
from unmask.errors import PluginError, UserError
from unmask.manifest.checking import check_manifest
from unmask.manifest.data_section import build_data, subset
from unmask.manifest.reading import parse_manifest
from unmask.manifest.spec import Manifest
from unmask.models.building import BuiltModels, build_models
from unmask.models.defended import Defended
from unmask.models.randomized import RandomizedEnsemble
from unmask.models.trained import TrainingView
from unmask.plugins.catalog import Catalog, using
from unmask.weights import save_weights, sha256_of_file


class Net(nn.Module):
    def __init__(self, classes: int, image_channels: int, image_size: Any, scale: float = 1.0) -> None:
        super().__init__()
        self.size, self.scale = image_size, scale
        height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
        self.head = nn.Linear(image_channels * height * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(images.flatten(1)) * self.scale


class Own(nn.Module):
    """Loads its weights itself."""

    def __init__(self, weights: str | None = None, sha256: str | None = None) -> None:
        super().__init__()
        self.given = weights, sha256
        self.register_buffer("b", torch.zeros(1))


class Shift(nn.Module):
    def __init__(self, image_channels: int = 3) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.rand(image_channels, 1, 1) + np.random.rand() + random.random())

    def forward(self, images: Tensor) -> Tensor:
        return images + self.offset


def blobs(split: str = "test", classes: int = 3, size: int = 2) -> LabelledImages:
    count = 12 if split == "test" else 20
    labels = torch.arange(count) % (classes if split == "test" else classes + 1)
    images = torch.linspace(0, 1, count)[:, None, None, None].expand(count, 2, size, size).contiguous()
    return LabelledImages(images, labels, torch.arange(count) * 10, name="blobs")


def without_split() -> LabelledImages:
    return blobs()


CALLS: list[tuple[str, int, int]] = []


class Recipe:
    def __init__(self, rate: float = 1.0, flaw: str = "") -> None:
        self.rate, self.flaw = rate, flaw

    def __call__(
        self,
        model: nn.Module,
        data: LabelledImages,
        *,
        seed: int,
        device: torch.device,
        progress: Callable[[str, int, int], None],
    ) -> None:
        part = model.front_end if isinstance(model, Defended) else model
        CALLS.append((type(part).__name__, seed, len(data)))
        if self.flaw == "refuses":
            raise UserError("will not.", where="rate")
        model.train()
        with torch.no_grad():
            for parameter in (model if self.flaw == "meddles" else part).parameters():
                parameter += self.rate * torch.rand(()) + data.images.mean()
                if self.flaw == "diverges":
                    parameter.fill_(torch.nan)
        progress("training", 1, 1)


class Plugin:
    @hookimpl
    def unmask_models(self) -> list[ModelEntry]:
        return [
            ModelEntry("net", "A linear model.", "None.", Net, recipe={"use": "nudge"}),
            ModelEntry("raw", "The same, never trained.", "None.", Net),
            ModelEntry("own", "Loads its weights itself.", "None.", Own),
            ModelEntry("wrong", "No model.", "None.", lambda: 3),
        ]

    @hookimpl
    def unmask_front_ends(self) -> list[FrontEndEntry]:
        return [FrontEndEntry("shift", "Adds an offset.", "None.", Shift, recipe={"use": "nudge"})]

    @hookimpl
    def unmask_ensembles(self) -> list[EnsembleEntry]:
        return [EnsembleEntry("randomized", "Draws a member.", "None.", RandomizedEnsemble)]

    @hookimpl
    def unmask_data(self) -> list[DataEntry]:
        return [
            DataEntry("blobs", "Grey images.", "None.", blobs),
            DataEntry("test-only", "No training part.", "None.", without_split),
        ]

    @hookimpl
    def unmask_recipes(self) -> list[RecipeEntry]:
        return [RecipeEntry("nudge", "Moves every weight.", "None.", Recipe)]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("UNMASK_CACHE", str(tmp_path / "cache"))
    CALLS.clear()
    with using(Catalog.from_plugins({"tests/plugin": Plugin()})):
        yield


def manifest(models: str, folder: Path | str = ".", *, data: str = "blobs", seed: int = 0) -> Manifest:
    text = f'seed = {seed}\nepsilons = [0.1]\ndata = "{data}"\n[attacks]\npgd = "pgd"\n{models}'
    return parse_manifest(text, folder=folder, file="m.toml")


PAIR = """
[models.plain]
use = "net"
[models.guarded]
backbone = "plain"
front-end = "shift"
[models.three]
ensemble = { use = "randomized", members = ["guarded"], copies = 3 }
"""


def states(built: BuiltModels) -> dict[str, Tensor]:
    return {f"{n}.{k}": v for n, m in built.models.items() for k, v in m.state_dict().items()}


def test_builders_are_told_of_the_data() -> None:
    built = build_models(manifest('[models.a]\nuse = "raw"\n[models.b]\nuse = "raw"\nclasses = 7\n'))
    a, b = built.models["a"], built.models["b"]
    assert isinstance(a, Net) and isinstance(b, Net)
    # Four classes: the training labels go up to 3, the test labels to 2.
    assert (a.head.out_features, a.head.in_features, a.size) == (4, 2 * 2 * 2, 2)
    assert b.head.out_features == 7
    assert built.descriptions["a"]["options"] == {
        "classes": 4,
        "image_channels": 2,
        "image_size": 2,
        "scale": 1.0,
    }
    only = build_models(manifest('[models.a]\nuse = "raw"\n', data="test-only")).models["a"]
    assert isinstance(only, Net) and only.head.out_features == 3


def test_parts_are_shared_and_every_copy_is_trained_once() -> None:
    built = build_models(manifest(PAIR))
    plain, guarded, three = built.models["plain"], built.models["guarded"], built.models["three"]
    assert isinstance(guarded, Defended) and guarded.backbone is plain
    assert isinstance(three, RandomizedEnsemble) and three.members[0] is guarded
    backbones = {member.backbone.head.bias.sum().item() for member in three.members}  # type: ignore[union-attr]
    offsets = {member.front_end.offset.sum().item() for member in three.members}  # type: ignore[union-attr]
    assert len(backbones) == len(offsets) == 3
    assert [name for name, _, _ in CALLS] == ["Net", "Shift", "Net", "Shift", "Net", "Shift"]
    assert len({seed for _, seed, _ in CALLS}) == 3
    assert {count for _, _, count in CALLS} == {20}
    assert list(built.trained) == [
        "plain",
        "guarded",
        *(f"{name} (copy {i})" for i in (1, 2) for name in ("plain", "guarded")),
    ]
    assert not any(module.training for model in built.models.values() for module in model.modules())


def test_nothing_is_trained_twice_and_what_is_kept_is_the_same() -> None:
    first = build_models(manifest(PAIR))
    calls = len(CALLS)
    second = build_models(manifest(PAIR), train=False)
    assert len(CALLS) == calls and second.trained == {}
    assert second.descriptions == first.descriptions
    found, wanted = states(second), states(first)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_the_same_manifest_gives_the_same_models_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = build_models(manifest(PAIR))
    monkeypatch.setenv("UNMASK_CACHE", str(tmp_path / "other"))
    torch.manual_seed(12345)
    second = build_models(manifest(PAIR))
    assert second.descriptions == first.descriptions
    assert all(
        torch.equal(a, b) for a, b in zip(states(first).values(), states(second).values(), strict=True)
    )


def test_global_random_states_stay_as_they_are() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore[union-attr,index]
    build_models(manifest(PAIR))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # type: ignore[index]
    assert random.getstate() == before[2]


@pytest.mark.parametrize(
    ("change", "trained_again"),
    [
        (("seed", "1"), {"plain", "guarded"}),
        (('use = "net"', 'use = "net"\nscale = 2'), {"plain", "guarded"}),
        (('use = "net"', 'use = "net"\nrecipe = { use = "nudge", rate = 2 }'), {"plain", "guarded"}),
        (('front-end = "shift"', 'front-end = "shift"\nrecipe = { use = "nudge", rate = 2 }'), {"guarded"}),
        (('front-end = "shift"', 'front-end = "shift"\nrecipe = { use = "nudge", rate = 1 }'), set()),
        (('data = "blobs"', 'data = { use = "blobs", samples = 3 }'), set()),
        (('data = "blobs"', 'data = { use = "blobs", size = 3 }'), {"plain", "guarded"}),
    ],
)
def test_the_key_knows_what_the_weights_depend_on(change: tuple[str, str], trained_again: set[str]) -> None:
    models = PAIR.partition("[models.three]")[0]
    build_models(manifest(models))
    if change[0] == "seed":
        again = manifest(models, seed=int(change[1]))
    else:
        text = manifest(models).text
        assert change[0] in text
        again = parse_manifest(text.replace(*change))
    assert set(build_models(again).trained) == trained_again


def test_descriptions_are_json_and_say_where_weights_come_from() -> None:
    descriptions = build_models(manifest(PAIR)).descriptions
    assert json.loads(json.dumps(descriptions)) == descriptions
    trained = descriptions["guarded"]["front-end"]["trained"]
    assert trained["recipe"] == {
        "use": "nudge",
        "provider": "tests/plugin",
        "version": "0",
        "options": {"rate": 1.0, "flaw": ""},
    }
    assert descriptions["guarded"]["backbone"] == descriptions["plain"]
    assert len(descriptions["three"]["members"]) == 3


def test_missing_weights_are_listed_or_left() -> None:
    with pytest.raises(
        UserError, match=r"m\.toml: models: no trained weights for: plain, guarded, plain \(copy 1\)"
    ):
        build_models(manifest(PAIR), train=False)
    built = build_models(manifest(PAIR), train=False, leave_untrained=True)
    assert built.untrained[:2] == ("plain", "guarded") and len(built.untrained) == 6
    assert CALLS == []


def test_given_weights_are_loaded_and_described(tmp_path: Path) -> None:
    net = Net(4, 2, 2)
    path = save_weights(net.state_dict(), tmp_path / "w.safetensors")
    digest = sha256_of_file(path)
    table = f'[models.m]\nuse = "net"\nweights = "w.safetensors"\nsha256 = "{digest}"\n'
    built = build_models(manifest(table, tmp_path))
    assert torch.equal(built.models["m"].state_dict()["head.weight"], net.head.weight)
    assert built.descriptions["m"]["weights"] == {"path": "w.safetensors", "sha256": digest}
    assert CALLS == []
    with pytest.raises(UserError, match=r"m\.toml: models\.m\.weights: .* not 0000"):
        build_models(manifest(table.replace(digest, "0" * 64), tmp_path))
    with pytest.raises(UserError, match=r"models\.m\.weights: .*does not fit this Net.*head\.weight is 4x8"):
        build_models(manifest(table + "classes = 9\n", tmp_path))


def test_weights_of_a_front_end_and_of_a_whole_composite(tmp_path: Path) -> None:
    shift, net = Shift(2), Net(4, 2, 2)
    save_weights(shift.state_dict(), tmp_path / "f.safetensors")
    save_weights(Defended(shift, net).state_dict(), tmp_path / "all.safetensors")
    front = '[models.plain]\nuse = "net"\n[models.m]\nbackbone = "plain"\nfront-end = '
    built = build_models(manifest(front + '{ use = "shift", weights = "f.safetensors" }\n', tmp_path))
    assert torch.equal(built.models["m"].front_end.offset, shift.offset)  # type: ignore[union-attr,arg-type]
    assert [name for name, _, _ in CALLS] == ["Net"]
    whole = build_models(manifest(front + '"shift"\nweights = "all.safetensors"\n', tmp_path))
    model = whole.models["m"]
    assert isinstance(model, Defended)
    assert torch.equal(model.backbone.head.weight, net.head.weight)  # type: ignore[union-attr,arg-type]
    # The plain model keeps its own weights.
    assert model.backbone is not whole.models["plain"]
    assert torch.equal(*(b.models["plain"].head.weight for b in (built, whole)))  # type: ignore[union-attr,arg-type]
    assert len(CALLS) == 1


def test_a_builder_that_takes_weights_loads_them_itself(tmp_path: Path) -> None:
    path = save_weights({"b": torch.ones(1)}, tmp_path / "w.safetensors")
    digest = sha256_of_file(path)
    table = f'[models.m]\nuse = "own"\nweights = "w.safetensors"\nsha256 = "{digest}"\n'
    built = build_models(manifest(table, tmp_path))
    model = built.models["m"]
    assert isinstance(model, Own) and model.given == (str(path), digest)
    assert built.descriptions["m"]["options"] == {}
    with pytest.raises(UserError, match=r"models\.m\.sha256: .*nothing was loaded"):
        build_models(manifest(table.replace(digest, "0" * 64), tmp_path))


def test_copies_of_a_fixed_model_are_refused(tmp_path: Path) -> None:
    save_weights(Net(4, 2, 2).state_dict(), tmp_path / "w.safetensors")
    ensemble = '[models.e]\nensemble = { use = "randomized", members = ["m"], copies = 2 }\n'
    with pytest.raises(UserError, match=r"models\.e\.ensemble\.copies: .*one and the same model"):
        build_models(manifest(f'[models.m]\nuse = "net"\nweights = "w.safetensors"\n{ensemble}', tmp_path))
    two = build_models(manifest(f'[models.m]\nuse = "raw"\n{ensemble}')).models["e"]
    assert not torch.equal(*(member.head.weight for member in two.members))  # type: ignore[union-attr]


def test_members_stand_in_order_and_nested_copies_differ() -> None:
    text = """
[models.a]
use = "raw"
[models.b]
use = "raw"
scale = 2
[models.inner]
ensemble = { use = "randomized", members = ["a", "b"], copies = 2, probabilities = [0.4, 0.3, 0.2, 0.1] }
[models.outer]
ensemble = { use = "randomized", members = ["inner"], copies = 2 }
"""
    models = build_models(manifest(text)).models
    inner, outer = models["inner"], models["outer"]
    assert isinstance(inner, RandomizedEnsemble) and isinstance(outer, RandomizedEnsemble)
    assert [member.scale for member in inner.members] == [1.0, 1.0, 2.0, 2.0]
    assert inner.members[0] is models["a"] and inner.members[2] is models["b"]
    assert outer.members[0] is inner
    leaves = [leaf for member in outer.members for leaf in member.members]  # type: ignore[union-attr]
    assert len({leaf.head.weight.sum().item() for leaf in leaves}) == 8


def test_a_recipe_may_have_data_of_its_own() -> None:
    recipe = '{ use = "nudge", data = { use = "blobs", samples = 5 } }'
    table = f'[models.m]\nuse = "net"\nclasses = 4\nrecipe = {recipe}\n'
    build_models(manifest(table, data="test-only"))
    assert CALLS[0][2] == 5
    with pytest.raises(UserError, match=r"models\.m\.recipe: the data set 'test-only' has no training part"):
        build_models(manifest('[models.m]\nuse = "net"\n', data="test-only"))


@pytest.mark.parametrize(
    ("flaw", "error", "words"),
    [
        ("refuses", UserError, r"m\.toml: models\.guarded\.recipe\.rate: will not\."),
        (
            "meddles",
            PluginError,
            r"models\.guarded\.recipe: the recipe 'nudge' of tests/plugin changed the backbone",
        ),
        ("diverges", UserError, r"models\.guarded\.recipe: training diverged: 'offset'"),
    ],
)
def test_a_failed_training_is_said_and_not_kept(
    flaw: str, error: type[UserError], words: str, tmp_path: Path
) -> None:
    models = PAIR.partition("[models.three]")[0] + f'recipe = {{ use = "nudge", flaw = "{flaw}" }}\n'
    with pytest.raises(error, match=words):
        build_models(manifest(models))
    assert len(list((tmp_path / "cache" / "trained").iterdir())) == 1  # the backbone


def test_what_is_no_module_is_the_plugins_fault() -> None:
    with pytest.raises(PluginError, match=r"models\.m: 'wrong' of tests/plugin built int"):
        build_models(manifest('[models.m]\nuse = "wrong"\n'))


def test_a_model_that_does_not_fit_the_training_data_is_not_trained() -> None:
    with pytest.raises(UserError, match=r"m\.toml: models\.m: has 3 classes, but the labels go up to 3"):
        build_models(manifest('[models.m]\nuse = "net"\nclasses = 3\n'))
    assert CALLS == []


def test_progress_tells_what_is_trained() -> None:
    said: list[tuple[str, int, int]] = []
    build_models(manifest(PAIR), view=TrainingView(lambda *report: said.append(report)))
    assert said[:3] == [
        ("plain: training", 1, 1),
        ("guarded: training", 1, 1),
        ("plain (copy 1): training", 1, 1),
    ]


def test_a_damaged_cache_file_is_trained_again(tmp_path: Path) -> None:
    first = build_models(manifest('[models.m]\nuse = "net"\n'))
    path = Path(first.trained["m"])
    path.write_bytes(path.read_bytes()[:50])
    again = build_models(manifest('[models.m]\nuse = "net"\n'))
    assert set(again.trained) == {"m"} and again.descriptions == first.descriptions


def test_a_subset_is_random_seeded_nested_and_in_order() -> None:
    data = blobs("train")
    few, more = subset(data, 5, seed=0), subset(data, 9, seed=0)
    assert few.ids.tolist() == sorted(few.ids.tolist())
    assert set(few.ids.tolist()) < set(more.ids.tolist()) <= set(data.ids.tolist())
    assert len(set(more.ids.tolist())) == 9
    assert subset(data, 5, seed=1).ids.tolist() != few.ids.tolist()
    shuffled = data.select(torch.randperm(20, generator=torch.Generator().manual_seed(0)))
    again = subset(shuffled, 5, seed=0)
    assert torch.equal(again.ids, few.ids) and torch.equal(again.images, few.images)
    assert torch.equal(again.labels, few.labels)
    assert subset(data, 20, seed=3).ids.tolist() == data.ids.tolist()
    with pytest.raises(UserError, match=r"21 samples are asked for.*has 20.*Write samples = 20"):
        subset(data, 21, seed=0)


def test_a_subset_is_uniform() -> None:
    data = blobs("train")
    counts = torch.zeros(20)
    for seed in range(400):
        counts[subset(data, 5, seed).ids // 10] += 1
    # 100 expected of each, standard deviation 8.7
    assert float((counts - 100).abs().max()) < 45


def test_the_data_of_a_manifest() -> None:
    text = '[models.m]\nuse = "raw"\n'
    whole = build_data(manifest(text))
    assert len(whole) == 12 and whole.bounds == (0.0, 1.0)
    bounded = parse_manifest(
        "bounds = [-1, 2]\n" + manifest(text).text.replace('"blobs"', '{ use = "blobs", samples = 4 }')
    )
    assert len(build_data(bounded)) == 4 and build_data(bounded).bounds == (-1.0, 2.0)
    many = parse_manifest(
        manifest(text).text.replace('"blobs"', '{ use = "blobs", samples = 13 }'), file="m.toml"
    )
    with pytest.raises(UserError, match=r"m\.toml: data\.samples: 13 samples.* has 12"):
        build_data(many)


def test_the_static_check_builds_nothing() -> None:
    from unmask_plugins import registration

    with using(Catalog.from_plugins({"builtin/attacks": registration})):
        check_manifest(
            parse_manifest(
                'epsilons = [0.1]\ndata = "digits"\nmodels.m = { use = "small-cnn" }\nattacks.pgd = "pgd"\n'
            )
        )
    assert CALLS == []
