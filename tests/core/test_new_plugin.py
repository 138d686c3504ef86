"""`unmask new-plugin`: what it makes installs, passes its own tests, and runs from its manifest."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from unmask.cli.main import main
from unmask.errors import UserError
from unmask.scaffolding import plugin
from unmask.scaffolding.names import PluginNames
from unmask.scaffolding.plugin import make_plugin


def called(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_plugin("Momentum_Walk", tmp_path_factory.mktemp("projects"))


def run(arguments: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        arguments,
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_project_is_whole(made: Path) -> None:
    files = {str(file.relative_to(made)) for file in made.rglob("*") if file.is_file()}
    assert files == {
        ".github/workflows/tests.yml",
        ".gitignore",
        "README.md",
        "manifest.toml",
        "momentum_walk/__init__.py",
        "momentum_walk/attack.py",
        "momentum_walk/py.typed",
        "momentum_walk/registration.py",
        "pyproject.toml",
        "tests/test_momentum_walk.py",
    }
    project = tomllib.loads((made / "pyproject.toml").read_text())["project"]
    assert project["name"] == made.name == "momentum-walk"
    assert project["entry-points"]["unmask"] == {"attacks": "momentum_walk.registration"}
    for file in made.rglob("*"):
        if file.is_file() and file.suffix != ".yml":
            assert "{{" not in file.read_text(), file
    assert "${{ matrix.python }}" in (made / ".github/workflows/tests.yml").read_text()


@pytest.mark.parametrize("name", ["ab", "a-name-that-is-as-long-as-anybody-would-want-to-type-it"])
def test_lint_is_clean_whatever_the_name(name: str, tmp_path: Path) -> None:
    folder, ruff = make_plugin(name, tmp_path), str(Path(sys.executable).with_name("ruff"))
    run([ruff, "check", "--no-cache", "."], folder)
    run([ruff, "format", "--no-cache", "--check", "."], folder)


def test_it_installs_passes_its_tests_and_runs_from_its_manifest(made: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*pip, "--disable-pip-version-check", "--no-index", "--target", str(site), str(made)], tmp_path)
    here = {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "UNMASK_CACHE": str(tmp_path / "cache")}
    out = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], made, **here)
    assert " passed" in out
    manifest = (made / "manifest.toml").read_text().replace("samples = 100", "samples = 10")
    # Trained for one epoch: what is shown here is that it runs.
    manifest = manifest.replace(
        'use = "small-cnn"', 'use = "small-cnn"\nrecipe = { use = "standard", epochs = 1 }'
    )
    (tmp_path / "manifest.toml").write_text(manifest)
    out = run(
        [sys.executable, "-m", "unmask", "run", "manifest.toml", "-o", str(tmp_path / "run")],
        tmp_path,
        **here,
    )
    assert "mine" in out
    shown = run([sys.executable, "-m", "unmask", "show", "attack", "momentum-walk"], tmp_path, **here)
    assert "momentum-walk/attacks (version 0.1.0)" in shown


def test_the_command_says_what_comes_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("new-plugin", "slow.walk", "--directory", str(tmp_path)) == 0
    out = capsys.readouterr().out
    assert f"made {tmp_path / 'slow-walk'}/ with the attack 'slow-walk'" in out
    assert f"cd {tmp_path / 'slow-walk'}" in out
    assert (tmp_path / "slow-walk" / "slow_walk" / "attack.py").is_file()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("my attack!", "Try 'my-attack'"),
        ("", "Such as: my-attack"),
        ("-x-", "Try 'x'"),
        ("../out", "Try 'out'"),
        ("3d", "Try 'attack-3d'"),
        ("class", "a word of Python's"),
        ("Random", "a module that is there already"),
        ("torch", "a module that is there already"),
        ("xarray", "installing the plugin would replace it"),
        ("Scikit.Learn", "such as 'my-scikit-learn'"),
        ("sklearn", "would hide the one that is installed"),
        ("cleverhans", "such as 'my-cleverhans'"),
        ("long" * 80, "has 320 letters"),
        ("unmask", "Unmask's own"),
        ("Unmask.Plugins", "Unmask's own"),
        ("pgd", "there is an attack 'pgd' already"),
    ],
)
def test_bad_names_are_refused_in_words(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("new-plugin", "--directory", str(tmp_path), "--", name) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_plugin_that_is_installed_can_be_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "site" / "old_walk-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: old-walk\nVersion: 0.1\n")
    monkeypatch.syspath_prepend(str(info.parent))
    with pytest.raises(UserError, match="would replace it"):
        make_plugin("old-walk", tmp_path)
    (info / "entry_points.txt").write_text("[unmask]\nattacks = old_walk.registration\n")
    assert make_plugin("old-walk", tmp_path).is_dir()


def test_nothing_is_overwritten_and_nothing_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "walk").mkdir()
    with pytest.raises(UserError, match="is there already"):
        make_plugin("walk", tmp_path)
    (tmp_path / "walk").rmdir()
    with pytest.raises(UserError, match="is no folder"):
        make_plugin("walk", tmp_path / "absent")
    monkeypatch.setattr(plugin, "_FILES", {**plugin._FILES, "package.py": "README.md/inside"})
    with pytest.raises(UserError, match="cannot be written"):
        make_plugin("walk", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_names_follow_from_one() -> None:
    names = PluginNames.of("My.Fine__Attack")
    assert (names.distribution, names.module, names.class_name) == (
        "my-fine-attack",
        "my_fine_attack",
        "MyFineAttack",
    )
