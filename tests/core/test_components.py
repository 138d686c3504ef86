"""Components built by name, and what an attack may be given as."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
import pytest
import torch
from torch import Tensor, nn

import unmask
from unmask.components import (
    ConfiguredAttack,
    ModelReference,
    as_configured,
    build_component,
    configure_attack,
    data,
)
from unmask.data import LabelledImages
from unmask.entries import (
    AttackEntry,
    DataEntry,
    EnsembleEntry,
    FrontEndEntry,
    GradientEntry,
    MetricEntry,
    ModelEntry,
    RecipeEntry,
)
from unmask.errors import MisuseError, PluginError, UserError
from unmask.markers import hookimpl
from unmask.plugins.catalog import Catalog, using

if TYPE_CHECKING:
    from unmask.evaluation.task import GradientSource


@attrs.frozen
class Exact:
    access = "gradients"

    def __call__(self, task: Any, x: Any, loss: Any) -> Any:
        return x


@attrs.frozen
class Probing:
    access = "scores"
    h: float = 0.01
    inner: GradientSource = attrs.field(factory=Exact)

    def __call__(self, task: Any, x: Any, loss: Any) -> Any:
        return x


@attrs.frozen
class Climb:
    """Climbs."""

    steps: int = attrs.field(default=10, validator=attrs.validators.ge(1))
    step_size: float | None = None
    loss: Literal["ce", "margin"] = "ce"
    gradient: GradientSource = attrs.field(factory=Exact)

    def start(self, task: Any) -> Any:
        return task

    def step(self, task: Any, state: Any) -> Any:
        return state


@attrs.frozen
class Suite:
    attacks: tuple[ConfiguredAttack, ...]
    source: ModelReference | None = None

    def __call__(self, target: Any, images: Any, labels: Any, budget: Any, random: Any) -> Any:
        return images


def noise(target: Any, images: Any, labels: Any, budget: Any, random: Any) -> Any:
    """Adds nothing at all."""
    return images


def noise_built(queries: int = 5) -> Any:
    return noise


def images(count: int = 2, path: Path = Path("here")) -> LabelledImages:
    return LabelledImages(
        torch.zeros(count, 1, 2, 2), torch.zeros(count, dtype=torch.int64), torch.arange(count)
    )


class Mean(nn.Module):
    def __init__(self, members: list[nn.Module], weight: float = 1.0) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([m(x) for m in self.members]).mean(0) * self.weight


class Everything:
    @hookimpl
    def unmask_attacks(self) -> Any:
        return [
            AttackEntry("climb", "Climbs.", "ref", build=Climb),
            AttackEntry("suite", "Many.", "ref", build=Suite, access="scores"),
            AttackEntry("noise", "Noise.", "ref", build=noise_built, access="labels", norms=("linf",)),
            AttackEntry("wrong", "Not an attack.", "ref", build=dict),
        ]

    @hookimpl
    def unmask_gradients(self) -> Any:
        return [
            GradientEntry("exact", "", "", build=Exact),
            GradientEntry("probing", "", "", build=Probing, access="scores"),
        ]

    @hookimpl
    def unmask_models(self) -> Any:
        return [
            ModelEntry("linear", "", "", build=lambda classes=3: nn.Linear(4, classes)),
            ModelEntry("wrong", "", "", build=lambda: 3),
        ]

    @hookimpl
    def unmask_front_ends(self) -> Any:
        return [FrontEndEntry("identity", "", "", build=nn.Identity)]

    @hookimpl
    def unmask_ensembles(self) -> Any:
        return [EnsembleEntry("mean", "", "", build=Mean)]

    @hookimpl
    def unmask_metrics(self) -> Any:
        return [MetricEntry("count", "", "", build=lambda: len)]

    @hookimpl
    def unmask_data(self) -> Any:
        return [DataEntry("blank", "", "", build=images)]

    @hookimpl
    def unmask_recipes(self) -> Any:
        return [RecipeEntry("nothing", "", "", build=lambda: noise)]


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    with using(Catalog.from_plugins({"tests/all": Everything()})):
        yield


def test_an_attack_carries_every_option_with_its_value() -> None:
    made = unmask.attack("climb", steps=3, step_size="1/4")
    assert made.attack == Climb(steps=3, step_size=0.25)
    assert (made.use, made.provider, made.entry.summary) == ("climb", "tests/all", "Climbs.")
    assert made.options == {"steps": 3, "step_size": 0.25, "loss": "ce", "gradient": {"use": "exact"}}
    assert (made.max_queries, made.timeout) == (None, None)


def test_options_survive_json_and_build_the_same_attack_again() -> None:
    made = unmask.attack(
        "climb", gradient={"use": "probing", "h": "1/8", "inner": "exact"}, max_queries=9, timeout=1
    )
    table = json.loads(json.dumps(made.table()))
    assert table["gradient"] == {"use": "probing", "h": 0.125, "inner": {"use": "exact"}}
    again = as_configured(table)
    assert (again.attack, again.max_queries, again.timeout) == (made.attack, 9, 1.0)
    assert again.options == made.options


@pytest.mark.parametrize(
    "given", ["probing", {"use": "probing"}, {"use": "tests:probing", "h": 0.01}, Probing()]
)
def test_a_gradient_source_is_a_name_a_table_or_an_object(given: Any) -> None:
    made = unmask.attack("climb", gradient=given)
    assert made.attack.gradient == Probing()
    assert (made.gradient_name, made.access) == ("probing", "scores")


def test_access_is_the_gradient_sources_or_the_entrys() -> None:
    assert unmask.attack("climb").access == "gradients"
    assert unmask.attack("climb").gradient_name == "exact"
    assert unmask.attack("noise").access == "labels"
    assert unmask.attack("noise").gradient_name == ""


@pytest.mark.parametrize("given", [3, Probing, nn.Identity(), None])
def test_what_is_no_gradient_source_is_refused(given: Any) -> None:
    with pytest.raises(MisuseError, match=r"attack\('climb'\)\.gradient: must be a gradient source"):
        unmask.attack("climb", gradient=given)


@pytest.mark.parametrize(
    ("given", "where", "said"),
    [
        ("probin", "attacks.a.gradient", "Did you mean 'probing'?"),
        ({"h": 1}, "attacks.a.gradient", "needs 'use', the name of the gradient."),
        ({"use": 3}, "attacks.a.gradient.use", "must be text, not 3."),
        ({"use": "probing", "hh": 1}, "attacks.a.gradient", "there is no option 'hh'. Did you mean 'h'?"),
        ({"use": "probing", "h": "x"}, "attacks.a.gradient.h", "'x' is not a number"),
        ({"use": "probing", "inner": "exat"}, "attacks.a.gradient.inner", "Did you mean 'exact'?"),
    ],
)
def test_errors_below_a_gradient_source_say_where(given: Any, where: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        configure_attack("climb", {"gradient": given}, where="attacks.a")
    assert caught.value.where == where and said in caught.value.message


def test_attacks_nest_and_models_are_referred_to() -> None:
    model = nn.Identity()
    made = unmask.attack(
        "suite", attacks=["noise", {"use": "climb", "steps": 2}, unmask.attack("climb")], source="plain"
    )
    assert [part.use for part in made.attack.attacks] == ["noise", "climb", "climb"]
    assert made.attack.attacks[1].attack.steps == 2
    assert made.attack.source.name == "plain" and made.attack.source.module is None
    assert made.options["attacks"][0] == {"use": "noise", "queries": 5}
    assert made.options["source"] == "plain"
    assert unmask.attack("suite", attacks=[], source=model).attack.source.module is model
    assert json.loads(json.dumps(made.table())) == made.table()
    with pytest.raises(UserError, match=r"attack\('suite'\)\.attacks\[1\]: there is no option 'stpes'"):
        unmask.attack("suite", attacks=["noise", {"use": "climb", "stpes": 2}])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_queries": 0}, r"max_queries: must be at least 1, not 0"),
        ({"max_queries": True}, r"max_queries: must be a whole number"),
        ({"timeout": -1}, r"timeout: must be more than 0 seconds"),
        ({"timeout": "soon"}, r"timeout: must be a number of seconds, not 'soon'"),
        ({"max_queries": 1, "max-queries": 1}, "given twice"),
        ({"steps": 0}, r"attack\('climb'\)\.steps: .*must be >= 1"),
        ({"step-sise": 1}, r"no option 'step-sise'\. Did you mean 'step_size'"),
    ],
)
def test_wrong_options_of_an_attack_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        unmask.attack("climb", **options)


def test_an_option_may_be_called_name() -> None:
    with pytest.raises(UserError, match="no option 'name'"):
        unmask.attack("climb", name="x")


def test_whatever_an_evaluation_accepts_is_an_attack() -> None:
    made = unmask.attack("climb")
    assert as_configured(made) is made
    assert as_configured("climb").attack == made.attack
    assert as_configured({"use": "climb", "step-size": 1}).attack == Climb(step_size=1.0)


def test_a_bare_attack_object_is_recognised() -> None:
    bare = as_configured(Climb(steps=4, gradient=Probing()))
    assert (bare.use, bare.provider, bare.access) == ("climb", "tests/all", "scores")
    assert bare.options["steps"] == 4 and bare.options["gradient"]["use"] == "probing"


def test_an_attack_nobody_registered_is_described_by_itself() -> None:
    @attrs.frozen
    class Own:
        """My own search."""

        steps: int = 2
        norms = ("l2",)
        search = "nearest"

        def start(self, task: Any) -> Any: ...

        def step(self, task: Any, state: Any) -> Any: ...

    own = as_configured(Own())
    assert (own.use, own.entry.summary, own.entry.norms, own.entry.search) == (
        "Own",
        "My own search.",
        ("l2",),
        "nearest",
    )
    assert own.options == {"steps": 2} and own.provider.endswith("Own")


def test_a_plain_function_is_an_attack_named_after_itself() -> None:
    plain = as_configured(noise)
    assert (plain.use, plain.attack, plain.entry.summary) == ("noise", noise, "Adds nothing at all.")
    assert plain.provider == f"{noise.__module__}:noise"
    assert as_configured(lambda a, b, c, d, e: b).use == "function"


@pytest.mark.parametrize("value", [3, None, ["climb"], len, lambda x: x, nn.Identity(), Climb, object()])
def test_anything_else_is_refused_in_words(value: Any) -> None:
    with pytest.raises(MisuseError, match=r"attacks\.a: (must be the name of an attack|is the class Climb)"):
        as_configured(value, "attacks.a")


def test_other_components_are_built_by_name() -> None:
    assert unmask.model("linear", classes=5).out_features == 5
    assert isinstance(unmask.front_end("identity"), nn.Identity)
    assert unmask.gradient("probing", h="1/2") == Probing(h=0.5)
    assert unmask.metric("count") is len
    assert unmask.recipe("nothing") is noise
    assert len(data("blank", count=3)) == 3


def test_an_ensemble_takes_its_members_either_way() -> None:
    parts = [nn.Identity(), nn.Identity()]
    for made in (
        unmask.ensemble("mean", parts, weight=2),
        unmask.ensemble("mean", members=iter(parts), weight=2),
    ):
        assert list(made.members) == parts and made.weight == 2.0
    with pytest.raises(UserError, match="given twice"):
        unmask.ensemble("mean", parts, members=parts)
    with pytest.raises(MisuseError, match="needs a list of models"):
        unmask.ensemble("mean")
    with pytest.raises(UserError, match=r"no option 'wait'\. Did you mean 'weight'\? Known: weight\."):
        unmask.ensemble("mean", parts, wait=1)


def test_a_plugin_that_builds_something_else_is_named() -> None:
    with pytest.raises(
        PluginError, match=r"'wrong' of plugin tests/all .* must build an attack .*, not dict"
    ):
        unmask.attack("wrong")
    with pytest.raises(
        PluginError, match=r"'wrong' of plugin tests/all .* must build a torch.nn.Module, not int"
    ):
        unmask.model("wrong")


def test_errors_of_a_manifests_component_carry_its_key_path(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        build_component("data", "blank", {"cuont": 3}, where="data", base=tmp_path)
    assert caught.value.where == "data" and "Did you mean 'count'?" in caught.value.message
    with pytest.raises(UserError, match=r"^models\.m: there is no model 'lineal'\. Did you mean 'linear'\?"):
        build_component("models", "lineal", {}, where="models.m")
    with pytest.raises(MisuseError, match="must be the name of a component, not 3"):
        build_component("models", 3, {}, where="models.m")  # type: ignore[arg-type]


def test_an_attack_that_two_offer_is_called_by_its_full_name() -> None:
    with using(Catalog.from_plugins({"alpha/x": Everything(), "beta/y": Everything()})):
        assert unmask.attack("beta:climb", gradient=Exact()).use == "beta:climb"
