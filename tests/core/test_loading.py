"""Plugins: found, examined, accepted whole or reported once."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from unmask.entries import AttackEntry, ModelEntry
from unmask.markers import hookimpl
from unmask.plugins.loading import Candidate, load_plugins


def attack(name: str) -> AttackEntry:
    return AttackEntry(name=name, summary="Does a thing.", reference="", build=lambda: None)


class Working:
    @hookimpl
    def unmask_attacks(self) -> Any:
        yield attack("steady")


def candidate(load: Any, name: str = "bad/plugin") -> Candidate:
    distribution, _, point = name.partition("/")
    return Candidate(distribution, "2.3", point, f"{distribution}:plugin", load)


def only_failure(load: Any) -> str:
    """Load a plugin beside a working one; what its one failure says."""
    loaded = load_plugins([candidate(load), candidate(Working, "good/plugin")])
    assert [plugin.name for plugin in loaded.plugins] == ["good/plugin"]
    assert [entry.name for entry in loaded.plugins[0].offers["attacks"]] == ["steady"]
    (failure,) = loaded.failures
    assert (failure.name, failure.distribution, failure.version) == ("bad/plugin", "bad", "2.3")
    assert "bad/plugin" in str(failure) and "2.3" in str(failure)
    return failure.cause


@pytest.mark.parametrize(
    "error",
    [ImportError("no module named x"), SystemExit(3), ZeroDivisionError("at import"), RecursionError()],
)
def test_a_plugin_that_breaks_at_import_is_reported_with_its_cause(error: BaseException) -> None:
    def load() -> Any:
        raise error

    cause = only_failure(load)
    assert type(error).__name__ in cause and str(error) in cause


def test_an_interrupt_is_not_swallowed() -> None:
    def load() -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_plugins([candidate(load)])


@pytest.mark.parametrize(
    ("misspelt", "meant"), [("unmask_atacks", "unmask_attacks"), ("unmask_frontends", "unmask_front_ends")]
)
def test_a_misspelt_hook_is_refused_with_the_nearest_one(misspelt: str, meant: str) -> None:
    plugin = ModuleType("misspelt")
    setattr(plugin, misspelt, hookimpl(lambda: iter(())))
    plugin.unmask_models = hookimpl(lambda: iter(()))  # type: ignore[attr-defined]
    cause = only_failure(lambda: plugin)
    assert f"'{misspelt}'" in cause and f"Did you mean '{meant}'?" in cause


def test_a_hook_with_arguments_is_refused() -> None:
    class Greedy:
        @hookimpl
        def unmask_attacks(self, registry: Any = None) -> Any:
            return []

    assert "takes arguments (registry)" in only_failure(Greedy)


def test_a_wrapper_is_refused() -> None:
    class Wrapper:
        @hookimpl(wrapper=True)
        def unmask_attacks(self) -> Any:
            return (yield)

    assert "wrapper" in only_failure(Wrapper)


def test_a_hook_without_its_decorator_is_refused() -> None:
    plugin = ModuleType("undecorated")
    plugin.unmask_attacks = lambda: [attack("a")]  # type: ignore[attr-defined]
    assert "@unmask.hookimpl" in only_failure(lambda: plugin)


def test_a_module_that_merely_imports_the_kernels_package_is_no_hook() -> None:
    plugin = ModuleType("fine")
    plugin.unmask_kernels = ModuleType("unmask_kernels")  # type: ignore[attr-defined]
    plugin.unmask_attacks = hookimpl(lambda: [attack("a")])  # type: ignore[attr-defined]
    loaded = load_plugins([candidate(lambda: plugin)])
    assert not loaded.failures and loaded.plugins[0].kernels is None


def test_a_plugin_without_hooks_and_a_class_are_refused() -> None:
    assert "has no hook" in only_failure(lambda: ModuleType("empty"))
    assert "is a class" in only_failure(lambda: Working)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "must return an iterable of AttackEntry, not NoneType"),
        (attack("a"), "must return an iterable of AttackEntry, not AttackEntry"),
        ("pgd", "must return an iterable of AttackEntry, not str"),
        ({"pgd": attack("a")}, "must return an iterable of AttackEntry, not dict"),
        (["pgd"], "must return entries of type AttackEntry, not str"),
        ([ModelEntry("m", "", "", build=dict)], "must return entries of type AttackEntry, not ModelEntry"),
        ([attack("a"), attack("a")], "offers 'a' twice"),
    ],
)
def test_a_hook_that_returns_the_wrong_thing_is_refused(returned: Any, said: str) -> None:
    class Wrong:
        @hookimpl
        def unmask_attacks(self) -> Any:
            return returned

    assert said in only_failure(Wrong)


def test_a_hook_that_raises_takes_its_whole_plugin_out() -> None:
    class Half:
        @hookimpl
        def unmask_models(self) -> Any:
            return [ModelEntry("m", "", "", build=dict)]

        @hookimpl
        def unmask_attacks(self) -> Any:
            yield attack("a")
            raise RuntimeError("out of ideas")

    assert only_failure(Half) == "RuntimeError: out of ideas"


def test_an_entry_point_declared_twice_keeps_the_first() -> None:
    loaded = load_plugins([candidate(Working, "good/plugin"), candidate(Working, "good/plugin")])
    assert [plugin.name for plugin in loaded.plugins] == ["good/plugin"]
    assert "declared twice" in loaded.failures[0].cause


def test_one_object_named_by_two_entry_points_is_refused_the_second_time() -> None:
    plugin = Working()
    loaded = load_plugins([candidate(lambda: plugin, "good/one"), candidate(lambda: plugin, "good/two")])
    assert [found.name for found in loaded.plugins] == ["good/one"]
    assert "same object as 'good/one'" in loaded.failures[0].cause


def test_kernels_are_not_asked_for_before_they_are_needed() -> None:
    class Heavy:
        @hookimpl
        def unmask_kernels(self) -> Any:
            raise AssertionError("asked for too early")

    loaded = load_plugins([candidate(Heavy, "heavy/plugin")])
    assert not loaded.failures and loaded.plugins[0].kernels is not None


def test_installed_distributions_are_found_by_their_entry_points(tmp_path: Path) -> None:
    """Three distributions as pip lays them out, one of them broken, in a fresh interpreter."""
    for name, source in {
        "alpha": "from unmask import AttackEntry, hookimpl\n"
        "@hookimpl\ndef unmask_attacks():\n    yield AttackEntry('alpha-noise', '', '', build='alpha.x:y')\n",
        "beta": "raise SystemExit('not today')\n",
        "gamma": "from unmask import hookimpl\n@hookimpl\ndef unmask_atacks():\n    return []\n",
    }.items():
        (tmp_path / f"{name}.py").write_text(source)
        info = tmp_path / f"{name}_dist-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(f"[unmask]\nmain = {name}\n")
    script = textwrap.dedent(
        """
        import sys
        from unmask.plugins.catalog import catalog
        print(catalog().find("attack", "alpha-noise").provider)
        for failure in catalog().failures:
            print(failure)
        print([name for name in ("torch", "xarray") if name in sys.modules])
        """
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "alpha-dist/main"
    assert lines[1] == "plugin beta-dist/main (version 1.5) failed to load: SystemExit: not today"
    assert lines[2].startswith(
        "plugin gamma-dist/main (version 1.5) failed to load: there is no hook 'unmask_atacks'."
    )
    assert lines[3:] == ["[]"]
