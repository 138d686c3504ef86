"""What Tab offers, and that it is quick to offer it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unmask.cli.completion import complete_manifest, complete_result

PROGRAM = (
    "import sys\n"
    "from unmask.cli.main import main\n"
    "try:\n    main([])\nexcept SystemExit:\n    pass\n"
    "print('LOADED', *(name for name in ('torch', 'xarray', 'numpy') if name in sys.modules))"
)


def offered(words: str, shell: str = "bash") -> list[str]:
    """What the program answers when the shell asks; it must not have loaded anything heavy for it."""
    asked = {
        "_UNMASK_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={**os.environ, **asked},
        check=True,
    )
    *lines, loaded = done.stdout.splitlines()
    assert loaded == "LOADED"
    return [line for line in lines if line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("unmask c", ["check", "compare"]),
        ("unmask show att", ["attacks", "attack"]),
        ("unmask show attack fa", ["fab", "fab-t"]),
        ("unmask show front_end j", ["jpeg"]),
        ("unmask show attack foolbox:LinfPG", ["foolbox:LinfPGD"]),
        ("unmask show nonsense f", []),
        ("unmask list met", ["metrics", "metric"]),
        ("unmask plot results.nc he", ["heatmap"]),
    ],
)
def test_commands_kinds_and_names_are_offered(words: str, expected: list[str]) -> None:
    assert offered(words) == expected


def test_other_shells_show_the_summary_in_one_line() -> None:
    lines = offered("unmask show attack fab", "fish")
    assert [line.split("\t")[0] for line in lines] == ["fab", "fab-t"]
    assert lines[0].split("\t")[1].startswith("The nearest adversarial example")


def test_manifests_results_and_the_folders_on_the_way_are_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs" / "one").mkdir(parents=True)
    for name in ("a.toml", "b.txt", "c.nc", ".hidden.toml", "runs/one/results.nc"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert complete_manifest("") == ["a.toml", "c.nc", "runs/"]
    assert complete_result("") == ["c.nc", "runs/"]
    assert complete_result("runs/o") == ["runs/one/"]
    assert complete_result("runs/one/") == ["runs/one/results.nc"]
    assert complete_manifest(str(tmp_path / "a")) == [str(tmp_path / "a.toml")]
    assert complete_manifest("absent/x") == []


def test_the_scripts_for_the_shells_can_be_shown() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unmask", "--show-completion", "bash"],
        capture_output=True,
        text=True,
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        check=True,
    )
    assert "_UNMASK_COMPLETE=complete_bash" in done.stdout
