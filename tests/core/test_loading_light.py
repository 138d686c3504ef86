"""`import unmask`, `unmask --help` and `unmask list` stay light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "xarray", "numpy", "scipy", "sklearn", "unmask_kernels", "unmask_plugins")


def loaded_by(code: str) -> set[str]:
    """Which of the heavy modules a fresh interpreter has loaded after this code."""
    script = f"{code}\nimport sys\nprint('LOADED', *(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


def command(*arguments: str) -> str:
    return (
        "from unmask.cli.main import main\n"
        f"try:\n    main({arguments!r})\n"
        "except SystemExit as ended:\n    assert not ended.code, ended.code"
    )


def test_import_loads_nothing_heavy_and_no_plugin() -> None:
    code = "import unmask; unmask.hookimpl; unmask.AttackEntry; unmask.errors; dir(unmask)"
    assert loaded_by(code) == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["show", "--help"]])
def test_help_loads_nothing_heavy_and_no_plugin(arguments: list[str]) -> None:
    assert loaded_by(command(*arguments)) == set()


@pytest.mark.parametrize("arguments", [["list"], ["list", "attacks"], ["plugins"]])
def test_listings_load_registrations_but_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_by(command(*arguments)) == {"unmask_plugins"}


def test_every_public_name_exists() -> None:
    import unmask

    for name in unmask.__all__:
        assert getattr(unmask, name) is not None, name
        assert name in dir(unmask)


def test_an_unknown_name_is_an_attribute_error() -> None:
    import unmask

    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        unmask.evalute  # noqa: B018


def test_what_a_plugin_needs_is_found_without_knowing_the_rooms() -> None:
    import unmask
    from unmask.evaluation.task import GradientSource, Slope, Task

    assert (unmask.GradientSource, unmask.Slope, unmask.Task) == (GradientSource, Slope, Task)
    for source in (Path(__file__).parents[1] / "example_plugin").rglob("*.py"):
        assert "unmask.evaluation" not in source.read_text(), source
