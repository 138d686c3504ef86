"""The catalog: names, clashes, and what a broken plugin leaves behind."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from unmask.entries import AttackEntry, GradientEntry, ModelEntry
from unmask.errors import PluginError, UserError
from unmask.markers import hookimpl
from unmask.plugins.catalog import Catalog, catalog, kind_named, using


@attrs.frozen
class Autograd:
    access = "gradients"


@attrs.frozen
class Smoothed:
    draws: int = 3


def smoothed(draws: int = 3) -> Smoothed:
    return Smoothed(draws)


class Offers:
    """A plugin that offers these attacks, models and gradients."""

    def __init__(
        self, *attacks: str, models: tuple[str, ...] = (), gradients: dict[str, Any] | None = None
    ) -> None:
        self.attacks = attacks
        self.models = models
        self.gradients = gradients or {}

    @hookimpl
    def unmask_attacks(self) -> Any:
        return [AttackEntry(name, f"The attack {name}.", "ref", build=dict) for name in self.attacks]

    @hookimpl
    def unmask_models(self) -> Any:
        return [ModelEntry(name, "", "", build="nowhere.at.all:Model") for name in self.models]

    @hookimpl
    def unmask_gradients(self) -> Any:
        return [GradientEntry(name, "", "", build=build) for name, build in self.gradients.items()]


class Broken:
    @hookimpl
    def unmask_attacks(self) -> Any:
        raise RuntimeError("needs a licence")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("attack", "attacks"),
        ("attacks", "attacks"),
        ("front_end", "front-ends"),
        ("Front-Ends", "front-ends"),
        ("data", "data"),
        ("recipe", "recipes"),
    ],
)
def test_kinds_are_known_in_every_spelling(text: str, kind: str) -> None:
    assert kind_named(text) == kind


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"no kind of component 'atacks'\. Did you mean 'attacks'\?"):
        kind_named("atacks")


def test_a_component_is_found_with_its_provider() -> None:
    found = Catalog.from_plugins({"red-team/main": Offers("pgd", "square")}).find("attack", "square")
    assert (found.name, found.provider, found.distribution, found.version) == (
        "square",
        "red-team/main",
        "red-team",
        "0",
    )


def test_entries_come_in_the_order_of_their_names() -> None:
    names = [
        p.name for p in Catalog.from_plugins({"a/x": Offers("z", "b"), "b/x": Offers("c")}).entries("attacks")
    ]
    assert names == ["b", "c", "z"]


def test_two_providers_of_one_name_are_an_error_until_one_is_named() -> None:
    both = Catalog.from_plugins({"alpha/x": Offers("pgd", "own"), "beta/y": Offers("pgd")})
    with pytest.raises(PluginError, match=r"alpha/x .* and beta/y .*write 'alpha:pgd' or 'beta:pgd'"):
        both.find("attacks", "pgd")
    assert both.find("attacks", "alpha:pgd").provider == "alpha/x"
    assert both.find("attacks", "beta:pgd").provider == "beta/y"
    assert both.find("attacks", "own").provider == "alpha/x"
    assert both.find("attacks", "alpha:own").provider == "alpha/x"
    assert both.is_ambiguous("attacks", "pgd") and not both.is_ambiguous("attacks", "own")


def test_two_entry_points_of_one_distribution_are_told_apart_too() -> None:
    both = Catalog.from_plugins({"alpha/x": Offers("pgd"), "alpha/y": Offers("pgd")})
    with pytest.raises(PluginError, match=r"write 'alpha/x:pgd' or 'alpha/y:pgd'"):
        both.find("attacks", "alpha:pgd")
    assert both.find("attacks", "alpha/y:pgd").provider == "alpha/y"


def test_the_same_name_of_two_kinds_is_no_clash() -> None:
    both = Catalog.from_plugins({"alpha/x": Offers("thing"), "beta/y": Offers(models=("thing",))})
    assert both.find("attacks", "thing").provider == "alpha/x"
    assert both.find("models", "thing").provider == "beta/y"


def test_distribution_names_are_compared_as_pip_compares_them() -> None:
    assert Catalog.from_plugins({"Red_Team/x": Offers("pgd")}).find("attacks", "red-team:pgd").name == "pgd"


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    some = Catalog.from_plugins({"alpha/x": Offers("pgd", "square")})
    with pytest.raises(UserError, match=r"no attack 'sqare'\. Did you mean 'square'\? Known: pgd, square\.$"):
        some.find("attacks", "sqare")
    with pytest.raises(UserError, match=r"'beta' offers no attack 'pgd'.*Who offers it: alpha\."):
        some.find("attacks", "beta:pgd")


def test_an_unknown_name_mentions_the_plugin_that_failed() -> None:
    some = Catalog.from_plugins({"alpha/x": Offers("pgd"), "gamma/z": Broken()})
    with pytest.raises(
        UserError, match=r"plugin gamma/z \(version 0\) failed to load: RuntimeError: needs a licence\."
    ):
        some.find("attacks", "gamma-attack")


def test_a_builder_that_cannot_be_imported_names_its_plugin() -> None:
    provided = Catalog.from_plugins({"alpha/x": Offers(models=("net",))}).find("models", "net")
    with pytest.raises(
        PluginError, match=r"'net' of plugin alpha/x .*'nowhere.at.all:Model'.*ModuleNotFoundError"
    ):
        provided.builder()


def test_a_built_component_is_known_by_its_class_or_its_builders_annotation() -> None:
    some = Catalog.from_plugins({"alpha/x": Offers(gradients={"autograd": Autograd, "smoothed": smoothed})})
    assert some.name_of("gradients", Autograd()) == "autograd"
    assert some.name_of("gradients", Smoothed(7)) == "smoothed"
    assert some.name_of("gradients", object()) == ""


def test_a_component_named_by_text_is_known_without_importing_the_others() -> None:
    path = f"{Autograd.__module__}:Autograd"
    some = Catalog.from_plugins(
        {"alpha/x": Offers(gradients={"autograd": path, "lost": "nowhere.at.all:Lost"})}
    )
    assert some.name_of("gradients", Autograd()) == "autograd"
    assert some.name_of("gradients", Smoothed()) == ""


def test_a_name_that_two_offer_is_given_with_its_distribution() -> None:
    some = Catalog.from_plugins(
        {"alpha/x": Offers(gradients={"g": Autograd}), "beta/y": Offers(gradients={"g": Smoothed})}
    )
    assert some.name_of("gradients", Smoothed()) == "beta:g"


class Kernels:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    @hookimpl
    def unmask_kernels(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_the_kernels_loaded_last_are_used_and_asked_for_once() -> None:
    first, last = object(), object()
    some = Catalog.from_plugins({"a/k": Kernels(first), "b/k": Kernels(last), "c/k": Kernels(None)})
    assert some.kernels() is last
    assert some.kernels() is last


def test_kernels_that_fail_give_way_to_others() -> None:
    good = object()
    assert Catalog.from_plugins({"a/k": Kernels(good), "b/k": Kernels(OSError("gone"))}).kernels() is good
    with pytest.raises(PluginError, match=r"no plugin gives the tensor kernels.*b/k.*OSError: gone"):
        Catalog.from_plugins({"b/k": Kernels(OSError("gone"))}).kernels()
    with pytest.raises(PluginError, match="Reinstall unmask"):
        Catalog.from_plugins({}).kernels()


def test_another_catalog_is_used_within_a_block_only() -> None:
    usual, other, third = catalog(), Catalog.from_plugins({}), Catalog.from_plugins({})
    with using(other):
        assert catalog() is other
        with using(third):
            assert catalog() is third
        assert catalog() is other
    assert catalog() is usual


def test_one_norm_may_be_written_without_its_tuple() -> None:
    assert AttackEntry("a", "", "", build=dict, norms="linf").norms == ("linf",)
