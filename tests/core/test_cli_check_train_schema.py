from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from unmask.cli.main import main

MANIFEST = """\
epsilons = ["8/255"]
[data]
use = "digits"
samples = 30
[models.plain]
use = "small-cnn"
width = 4
recipe = { use = "standard", epochs = 1 }
[models.guarded]
backbone = "plain"
front-end = { use = "dncnn", depth = 3, channels = 2 }
recipe = { use = "front-end", updates = 2, steps = 1 }
[attacks.pgd]
use = "pgd"
[attacks.bpda]
use = "pgd"
gradient = "bypass"
"""

AIMED = """\
epsilons = ["8/255"]
[data]
use = "digits"
samples = 4
[models.plain]
use = "small-cnn"
width = 4
[attacks.pgd]
use = "pgd"
targeted = true
target = TARGET
"""

NETS = """\
import torch
from torch import nn

def flat(classes=10):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))

def probabilities():
    return nn.Sequential(flat(), nn.Softmax(1))

class Broken(nn.Module):
    def forward(self, images):
        return images.flatten(1)[:, :10] * float("nan")

class Shapeless(nn.Module):
    def forward(self, images):
        return images

class Stubborn(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = flat()

    def train(self, mode=True):
        return super().train(True)

    def forward(self, images):
        return self.net(images)
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def unmask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("UNMASK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        code = end.value.code
        return (code if isinstance(code, int) else 0), out, err

    return run


def files(folder: Path) -> list[str]:
    return sorted(
        str(Path(at, name)) for at, _, names in os.walk(folder) for name in names if "__pycache__" not in at
    )


def test_check_then_train_then_check(unmask: Run, tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(MANIFEST)
    before = files(tmp_path)
    code, out, err = unmask("check", path)
    assert (code, err) == (0, "")
    for part in (
        "small is in order",
        "linf, epsilon 0.0313725, seed 0",
        "digits, 30 samples of 1 x 8 x 8",
        "model plain: 10 classes, deterministic",
        "not run: bpda on plain",
        "will be trained: plain, guarded",
    ):
        assert part in out
    assert files(tmp_path) == before

    code, out, err = unmask("train", path)
    kept = [file for file in files(tmp_path) if file.endswith(".safetensors")]
    assert code == 0 and len(kept) == 2
    for name in ("plain", "guarded"):
        assert f"trained {name}: kept in {tmp_path / 'cache'}" in out

    code, out, _ = unmask("train", path)
    assert code == 0 and "nothing to train" in out
    code, out, _ = unmask("check", path)
    assert code == 0 and "will be trained" not in out
    logs = [file.replace(".safetensors", ".jsonl") for file in kept]
    assert files(tmp_path) == sorted([*before, *kept, *logs])


def test_check_refuses_a_target_that_is_the_label_or_no_class(unmask: Run, tmp_path: Path) -> None:
    from unmask.manifest.data_section import build_data
    from unmask.manifest.reading import parse_manifest

    labels = build_data(parse_manifest(AIMED.replace("TARGET", "1"))).labels.tolist()
    path = tmp_path / "aimed.toml"
    others = [(label + 1) % 10 for label in labels]
    for target, said in (
        ([*others[:3], labels[3]], "attacks.pgd.target[3]: is the label itself for 1 of 4 samples"),
        ([*others[:3], 10], "the class 10 does not exist"),
        (others[:3], "has 3 classes for 4 samples"),
    ):
        path.write_text(AIMED.replace("TARGET", str(target)))
        code, _, err = unmask("check", path)
        assert code == 2 and said in err
    path.write_text(AIMED.replace("TARGET", str(others)))
    assert unmask("check", path)[0] == 0
    # One class for all: its own samples are told.
    path.write_text(AIMED.replace("TARGET", str(labels[0])))
    code, out, _ = unmask("check", path)
    assert code == 0 and f"{labels.count(labels[0])} of 4 samples are of their target's class" in out


def test_weights_and_factories_are_found_beside_the_manifest(unmask: Run, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NETS)
    torch.save(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).state_dict(), tmp_path / "w.pt")
    path = tmp_path / "own.toml"
    path.write_text(own('use = "module"\nfactory = "nets:flat"\nweights = "w.pt"'))
    code, out, err = unmask("check", path)
    assert (code, err) == (0, "") and "model m: 10 classes" in out


def own(model: str) -> str:
    data = 'data = { use = "digits", samples = 20 }'
    return f'epsilons = [0.1]\n{data}\n[models.m]\n{model}\n[attacks]\npgd = "pgd"\n'


@pytest.mark.parametrize(
    ("factory", "parts"),
    [
        ("probabilities", ["probabilities", "softmax"]),
        ("Broken", ["NaN"]),
        ("Shapeless", ["[sample, class]"]),
        ("Stubborn", ["training mode", "eval"]),
        ("flatt", ["Did you mean 'flat'?"]),
    ],
)
def test_models_that_cannot_be_evaluated_are_refused(
    factory: str, parts: list[str], unmask: Run, tmp_path: Path
) -> None:
    (tmp_path / "nets.py").write_text(NETS)
    path = tmp_path / "own.toml"
    path.write_text(own(f'use = "module"\nfactory = "nets:{factory}"'))
    before = files(tmp_path)
    code, out, err = unmask("check", path)
    assert (code, out) == (2, "")
    for part in (str(path), "models.m", *parts):
        assert part in err
    assert "Traceback" not in err
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (MANIFEST.replace("samples = 30", "samples = 361"), ["data.samples", "361", "has 360"]),
        (MANIFEST.replace("samples = 30", "sample = 30"), ["data", "sample"]),
        (MANIFEST.replace("[data]", "bounds = [0, 0.5]\n[data]"), ["outside the bounds"]),
        (MANIFEST.replace("[data]", 'device = "cuda:99"\n[data]'), ["device", "cuda:99"]),
        (own('use = "small-cnn"\nwidth = 0'), ["models.m", "width", "0"]),
        (own('use = "small-cnn"\nclasses = 4'), ["models.m", "4 classes"]),
        (own('use = "small-cnn"\nweights = "gone.pt"'), ["models.m.weights", "gone.pt"]),
        ("epsilons = [0.1", ["not valid TOML"]),
    ],
)
def test_wrong_input_is_exit_2_and_one_paragraph(
    text: str, parts: list[str], unmask: Run, tmp_path: Path
) -> None:
    path = tmp_path / "m.toml"
    path.write_text(text)
    code, out, err = unmask("check", path)
    assert (code, out) == (2, "")
    for part in (str(path), *parts):
        assert part in err, err
    assert err.count("\n") == 1
    assert files(tmp_path) == [str(path)]


def test_a_model_that_does_not_fit_the_data_is_not_trained(unmask: Run, tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(own('use = "small-cnn"\nclasses = 4'))
    code, out, err = unmask("train", path)
    assert (code, out) == (2, "")
    assert f"{path}: models.m: has 4 classes, but the labels go up to 9" in err


def test_a_missing_manifest_is_named(unmask: Run, tmp_path: Path) -> None:
    for command in ("check", "train"):
        code, _, err = unmask(command, tmp_path / "gone.toml")
        assert code == 2 and "gone.toml" in err and "no such file" in err


def test_schema_is_printed_or_written(unmask: Run, tmp_path: Path) -> None:
    code, out, _ = unmask("schema")
    assert code == 0 and json.loads(out)["title"] == "Unmask manifest"
    path = tmp_path / "deep" / "schema.json"
    assert unmask("schema", "-o", path)[0] == 0
    assert json.loads(path.read_text()) == json.loads(out)
    (tmp_path / "file").write_text("")
    code, _, err = unmask("schema", "-o", tmp_path / "file" / "schema.json")
    assert code == 2 and "cannot be written" in err
