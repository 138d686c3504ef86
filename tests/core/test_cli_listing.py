"""`unmask list`, `show`, `plugins`, and what becomes of errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Literal

import attrs
import pytest

import unmask
from unmask.cli import main as command_line
from unmask.entries import AttackEntry, DataEntry, EnsembleEntry, Library
from unmask.errors import UserError
from unmask.markers import hookimpl
from unmask.plugins.catalog import Catalog, using


@attrs.frozen
class Search:
    """A search.

    Attributes:
        steps: How often it steps [at most].
        loss: What it climbs.
    """

    steps: int = 10
    loss: Literal["ce", "margin"] = "ce"
    path: str = attrs.field(kw_only=True)

    def start(self, task: Any) -> Any: ...

    def step(self, task: Any, state: Any) -> Any: ...


class Offers:
    @hookimpl
    def unmask_attacks(self) -> Any:
        return [
            AttackEntry(
                "search", "Looks [everywhere].", "Someone 2020", build=Search, norms=("l2",), access="scores"
            ),
            AttackEntry("lost", "Cannot be imported.", "", build="nowhere.at.all:Attack"),
        ]

    @hookimpl
    def unmask_ensembles(self) -> Any:
        return [EnsembleEntry("mean", "The mean.", "", build=lambda members: members[0])]


class AlsoOffers:
    @hookimpl
    def unmask_attacks(self) -> Any:
        return [AttackEntry("lost", "The same name.", "", build=dict)]

    @hookimpl
    def unmask_data(self) -> Any:
        return [DataEntry("images", "Some images.", "", build=dict)]


class Broken:
    @hookimpl
    def unmask_models(self) -> Any:
        raise RuntimeError("needs [a] licence")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("UNMASK_TRACEBACK", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    plugins = {"alpha/main": Offers(), "beta/main": AlsoOffers(), "gamma/main": Broken()}
    with using(Catalog.from_plugins(plugins)):
        yield


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            command_line.main(arguments)
        printed = capsys.readouterr()
        return int(caught.value.code or 0), printed.out, printed.err

    return call


def rows(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.split("   ") if cell.strip()]
        for line in text.splitlines()
        if line.strip()
    ]


def test_list_names_everything_by_kind(run: Any) -> None:
    status, out, err = run("list")
    assert status == 0
    assert ["search", "Looks [everywhere].", "alpha/main"] in rows(out)
    assert ["images", "Some images.", "beta/main"] in rows(out)
    assert "models\nnone installed" in out
    assert "plugin gamma/main (version 0) failed to load: RuntimeError: needs [a] licence" in err


@pytest.mark.parametrize("kind", ["attacks", "attack"])
def test_list_of_one_kind_tells_clashes_apart(run: Any, kind: str) -> None:
    status, out, _ = run("list", kind)
    assert status == 0
    assert [row[0] for row in rows(out)] == ["attacks", "name", "alpha:lost", "beta:lost", "search"]


def test_list_of_an_unknown_kind_is_refused(run: Any) -> None:
    status, out, err = run("list", "atacks")
    assert (status, out) == (2, "")
    assert err.startswith("error: there is no kind of component 'atacks'. Did you mean 'attacks'?")
    assert len(err.splitlines()) == 1


def test_show_tells_options_and_facts(run: Any) -> None:
    status, out, _ = run("show", "attack", "search")
    assert status == 0
    assert "search (attack): Looks [everywhere]." in out
    found = rows(out)
    assert ["provider", "alpha/main (version 0)"] in found
    assert ["reference", "Someone 2020"] in found
    assert ["norms", "l2"] in found and ["access", "scores"] in found and ["targeted", "no"] in found
    assert ["steps", "whole number", "10", "How often it steps [at most]."] in found
    assert ["loss", "one of 'ce', 'margin'", "ce", "What it climbs."] in found
    assert ["path", "text", "required"] in found
    assert any(row[0] == "max-queries" for row in found)


def test_show_does_not_count_members_among_the_options(run: Any) -> None:
    assert "It takes no options." in run("show", "ensemble", "mean")[1]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("serch", "Did you mean 'search'?"),
        ("lost", "write 'alpha:lost' or 'beta:lost'"),
        ("alpha:lost", "'lost' of plugin alpha/main (version 0) cannot be imported"),
    ],
)
def test_show_refuses_what_it_cannot_show(run: Any, name: str, said: str) -> None:
    status, out, err = run("show", "attack", name)
    assert (status, out) == (2, "")
    assert err.startswith("error: ") and said in err and "Traceback" not in err


def test_plugins_tells_who_offers_what_and_what_failed(run: Any) -> None:
    status, out, _ = run("plugins")
    assert status == 0
    assert ["alpha/main", "0", "Offers", "1 ensemble, 2 attacks"] in rows(out)
    assert "1 failed to load:" in out
    assert "gamma/main (version 0): RuntimeError: needs [a] licence" in out


def test_plugins_counts_what_comes_from_other_libraries_apart(run: Any) -> None:
    library = Library("toolbox", "toolbox", "toolbox", install="pip install toolbox")

    class Adapter:
        @hookimpl
        def unmask_attacks(self) -> Any:
            ours = AttackEntry("own", "Our own.", "Someone 2020", build=Search)
            return [ours, *(attrs.evolve(ours, name=k, library=library) for k in "abc")]

    with using(Catalog.from_plugins({"beta/main": Adapter()})):
        status, out, _ = run("plugins")
    assert status == 0
    assert "failed" not in out, out
    assert rows(out)[1] == ["beta/main", "0", "Adapter", "1 attack, 3 of other libraries"]


def test_version_and_help(run: Any) -> None:
    assert run("--version")[:2] == (0, f"unmask {unmask.__version__}\n")
    status, out, _ = run("--help")
    assert status == 0 and "plugins" in out and "list" in out


@pytest.mark.parametrize(
    "arguments", [("list", "--colour"), ("frobnicate",), ("show", "attack"), ("--wrong",)]
)
def test_wrong_usage_is_status_2(run: Any, arguments: tuple[str, ...]) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "") and "Usage" in err and "Traceback" not in err


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    class Failing:
        def __getattr__(self, name: str) -> Any:
            raise error

    monkeypatch.setattr("unmask.plugins.catalog.catalog", Failing)


def test_the_users_error_is_status_2_with_its_place(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, UserError("is wrong.", where="attacks.pgd.steps", file="a.toml"))
    assert run("plugins") == (2, "", "error: a.toml: attacks.pgd.steps: is wrong.\n")


def test_an_interrupt_is_status_130(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    assert run("plugins")[0] == 130


def test_a_bug_is_status_1_and_its_traceback_is_shown_when_asked_for(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(monkeypatch, RuntimeError("a bug"))
    status, _, err = run("plugins")
    assert status == 1 and "error: unexpected RuntimeError: a bug" in err and "Traceback" not in err
    status, _, err = run("--traceback", "plugins")
    assert status == 1 and "Traceback (most recent call last)" in err and "RuntimeError: a bug" in err
    assert "Traceback" not in run("plugins")[2]
    monkeypatch.setenv("UNMASK_TRACEBACK", "1")
    assert "Traceback" in run("plugins")[2]
    assert sys.excepthook is sys.__excepthook__
