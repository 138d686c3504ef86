"""Wherever code of a model or a plugin runs, and however it ends: a refusal in words or a failed cell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import unmask
from unmask.cli.main import main
from unmask.dimensions import Status

NETS = """
import ctypes
import os
import sys
import time

import torch


def ended():
    way = os.environ["WAY"]
    if way == "sys.exit":
        sys.exit(0)
    if way == "GeneratorExit":
        raise GeneratorExit
    if way == "KeyboardInterrupt":
        raise KeyboardInterrupt
    if way == "RuntimeError":
        raise RuntimeError("not today")
    if way == "MemoryError":
        raise MemoryError
    if way == "SIGSEGV":
        ctypes.string_at(0)
    if way == "SIGTERM":
        os.kill(os.getpid(), 15)
    if way == "os._exit":
        os._exit(130)
    if way == "holds on":
        while True:
            try:
                time.sleep(0.01)
            except BaseException:
                pass


def callers():
    frame = sys._getframe()
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back


class Net(torch.nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.linear = torch.nn.Linear(16, 3)
        with torch.no_grad():
            self.linear.weight.copy_(torch.randn(3, 16, generator=torch.Generator().manual_seed(0)) / 4)
            self.linear.bias.zero_()
        self.sound = sound

    def forward(self, images):
        if not self.sound and os.environ["PLACE"] in callers():
            ended()
        return self.linear(images.flatten(1))


def sound():
    return Net(True).eval()


def odd():
    if os.environ["PLACE"] == "factory":
        ended()
    return Net(False).eval()
"""

MANIFEST = """
name = "ends"
epsilons = ["0.1"]
timeout = 60

[data]
use = "arrays"
path = "data.npz"

[models.odd]
use = "module"
factory = "nets_that_end:odd"
expected-accuracy = 1.0

[models.sound]
use = "module"
factory = "nets_that_end:sound"

[attacks.pgd]
use = "pgd"
steps = 3
"""

MEASURED = """
quantize = "8bit"
diagnose = true
trace = true
metrics = [{ use = "certified-radius", sigma = 0.1, n = 20, n0 = 5 }]
"""

GENTLY = ("sys.exit", "GeneratorExit", "KeyboardInterrupt", "RuntimeError", "MemoryError")
"""Ways that an exception makes."""

BEFORE = {
    "factory": "factory",
    "the accuracy is measured": "_clean_accuracy",
    "inspection": "inspect_model",
}
MEASURES = {
    "slopes": ("_slopes", "slopes of model 'odd' could not be measured", "slope_measured"),
    "traces": ("_traced", "'pgd' on model 'odd' could not be traced", "trace_mean"),
    "8 bits": ("_judge", "8-bit examples of model 'odd' could not be judged", "correct_quantized"),
    "metric": ("answers", "the metric 'certified-radius' failed on model 'odd'", "certified_radius"),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with samples that both models are right about."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "nets_that_end", raising=False)
    Path("nets_that_end.py").write_text(NETS)
    Path("manifest.toml").write_text(MANIFEST)
    images = 0.1 + 0.8 * torch.rand(20, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    weight = torch.randn(3, 16, generator=torch.Generator().manual_seed(0)) / 4
    np.savez("data.npz", images=images.numpy(), labels=(images.flatten(1) @ weight.T).argmax(1).numpy())
    return tmp_path


def status(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert isinstance(end.value.code, int)
    return end.value.code


def ended_there(monkeypatch, place, way):
    monkeypatch.setenv("PLACE", place)
    monkeypatch.setenv("WAY", way)


def only_the_odd_model_failed(message: str) -> None:
    results = unmask.load("out/results.nc")
    failed = results.status == Status.FAILED
    assert failed.sel(model="odd", attack="pgd").all()
    assert not failed.sel(model="sound", attack="pgd").any()
    assert results.correct.sel(model="sound", attack="pgd").notnull().all()
    assert message in str(results.message.sel(model="odd", attack="pgd").values.item())


@pytest.mark.parametrize("way", GENTLY)
@pytest.mark.parametrize("stage", BEFORE)
@pytest.mark.parametrize("command", [("run", "manifest.toml", "-o", "out"), ("check", "manifest.toml")])
def test_a_model_that_cannot_be_had_is_refused_by_name(place, monkeypatch, capfd, command, stage, way):
    ended_there(monkeypatch, BEFORE[stage], way)
    assert status(*command) == 2
    said = capfd.readouterr().err
    assert "models.odd" in said
    assert way in said or (way == "sys.exit" and "SystemExit" in said)
    assert "Traceback" not in said
    assert not Path("out/results.nc").exists()


@pytest.mark.parametrize("way", GENTLY)
@pytest.mark.parametrize("stage", ["clean_outcome", "_attacked"])
def test_a_model_that_fails_costs_its_own_cells(place, monkeypatch, capfd, stage, way):
    ended_there(monkeypatch, stage, way)
    assert status("run", "manifest.toml", "-o", "out") == 3
    only_the_odd_model_failed("SystemExit: 0" if way == "sys.exit" else way)
    assert "Traceback" not in capfd.readouterr().err
    # What failed is computed again, and nothing else.
    ended_there(monkeypatch, "", "")
    kept = {path: path.stat().st_mtime_ns for path in Path("out/cells").iterdir()}
    assert status("run", "manifest.toml", "-o", "out") == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    mended = unmask.load("out/results.nc")
    assert mended.clean_correct.notnull().all()
    assert status("run", "manifest.toml", "-o", "unbroken") == 0
    unbroken = unmask.load("unbroken/results.nc")
    for name in set(unbroken.variables) - {"seconds"}:
        assert unbroken[name].identical(mended[name]), name


def write_manifest_with_measures() -> None:
    Path("manifest.toml").write_text(MANIFEST.replace("\n[data]", f"{MEASURED}\n[data]"))


@pytest.mark.parametrize("way", ["sys.exit", "KeyboardInterrupt"])
@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_that_fails_costs_its_own_numbers(place, monkeypatch, measure, way):
    write_manifest_with_measures()
    stage, warning, name = MEASURES[measure]
    ended_there(monkeypatch, stage, way)
    assert status("run", "manifest.toml", "-o", "out") == 0
    results = unmask.load("out/results.nc")
    assert any(warning in said for said in json.loads(results.attrs["warnings"]))
    assert results[name].sel(model="odd").isnull().all()
    assert results[name].sel(model="sound").notnull().any()
    assert Path("out/report.html").exists()


def run(place: str, way: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "unmask", "run", "manifest.toml", "-o", "out", *arguments],
        env={**os.environ, "PLACE": place, "WAY": way},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


processes = pytest.mark.skipif(sys.platform != "linux", reason="processes are attended to on Linux")


@processes
@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "way"), [("clean_outcome", "SIGSEGV"), ("clean_outcome", "os._exit"), ("_attacked", "SIGTERM")]
)
def test_a_model_that_ends_the_process_costs_its_own_cells(place, stage, way):
    ran = run(stage, way)
    assert ran.returncode == 3, ran.stderr
    only_the_odd_model_failed("status 130" if way == "os._exit" else way)
    # Each process that starts anew would say it again.
    lines = [line for line in ran.stderr.splitlines() if line.startswith("warning")]
    assert len(lines) == len(set(lines))
    assert ran.stderr.count("pgd on odd") <= 1


@processes
@pytest.mark.slow
@pytest.mark.parametrize("measure", ["slopes", "metric"])
def test_a_measure_that_ends_the_process_costs_its_own_numbers(place, measure):
    write_manifest_with_measures()
    stage, warning, name = MEASURES[measure]
    ran = run(stage, "SIGSEGV")
    assert ran.returncode == 0, ran.stderr
    results = unmask.load("out/results.nc")
    assert any(warning in said and "SIGSEGV" in said for said in json.loads(results.attrs["warnings"]))
    assert results[name].sel(model="odd").isnull().all()
    assert results[name].sel(model="sound").notnull().any()


@processes
@pytest.mark.slow
def test_a_crash_before_the_folder_is_opened_leaves_fresh_to_be_done(place, monkeypatch):
    assert run("", "").returncode == 0
    Path("manifest.toml").write_text(MANIFEST.replace("steps = 3", "steps = 2"))
    # A plugin that nobody asked for ends the first process; the second leaves it out, and begins anew.
    Path("ending_plugin.py").write_text("import ctypes\nctypes.string_at(0)\n")
    information = place / "ending_plugin-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: ending-plugin\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[unmask]\nending = ending_plugin\n")
    monkeypatch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)
    # And then the model a second one, which has begun anew already.
    assert run("clean_outcome", "SIGSEGV", "--fresh").returncode == 3
    assert Path("out.1/results.nc").exists()
    assert not Path("out.2").exists()
    only_the_odd_model_failed("SIGSEGV")


@processes
@pytest.mark.slow
def test_check_survives_too(place):
    ran = subprocess.run(
        [sys.executable, "-m", "unmask", "check", "manifest.toml"],
        env={**os.environ, "PLACE": "factory", "WAY": "os._exit"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 2
    assert "models.odd" in ran.stderr


@processes
@pytest.mark.slow
@pytest.mark.parametrize("stage", ["the accuracy is measured", "inspection"])
def test_a_model_that_ends_the_process_before_the_run_is_refused_by_name(place, stage):
    ran = run(BEFORE[stage], "SIGSEGV")
    assert ran.returncode == 2, ran.stderr
    assert "models.odd" in ran.stderr
    assert "SIGSEGV" in ran.stderr


@processes
@pytest.mark.slow
@pytest.mark.parametrize("stage", ["_attacked", "clean_outcome"])
def test_work_that_ignores_its_time_limit_is_ended_by_force(place, stage):
    Path("manifest.toml").write_text(MANIFEST.replace("timeout = 60", "timeout = 1"))
    ran = run(stage, "holds on")
    assert ran.returncode == 3, ran.stderr
    only_the_odd_model_failed("CellTimeoutError: the cell used up its time, did not end, and was ended")


@processes
@pytest.mark.slow
def test_the_same_with_workers(place):
    ran = run("clean_outcome", "SIGSEGV", "--workers", "2")
    assert ran.returncode == 3, ran.stderr
    only_the_odd_model_failed("its worker process died")


@processes
@pytest.mark.slow
def test_a_model_that_cannot_be_compared_with_workers_still_has_its_cells(place):
    ran = run("answers_hash", "RuntimeError", "--workers", "1")
    assert ran.returncode == 0, ran.stderr
    assert unmask.load("out/results.nc").correct.notnull().all()


def in_shell(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line in which PROGRAM stands for the command, whose exit status is written to `status`."""
    program = f"{{ {sys.executable} -m unmask run manifest.toml -o out; echo $? > status; }}"
    return subprocess.run(
        words.replace("PROGRAM", program),
        shell=True,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", ["PROGRAM 2> /dev/full", "PROGRAM 2>&-", "PROGRAM 2>&1 > said | true"])
def test_nobody_who_listens_is_no_reason_to_stop(place, words):
    """Every failed cell is warned of; what becomes of the warning must not matter."""
    in_shell(words, PLACE="_attacked", WAY="RuntimeError")
    assert Path("status").read_text().strip() == "3"
    only_the_odd_model_failed("not today")


@pytest.mark.slow
@pytest.mark.parametrize(("words", "status"), [("PROGRAM > /dev/full", "1"), ("PROGRAM | head -1", "0")])
def test_a_report_that_cannot_be_printed_is_kept(place, words, status):
    ran = in_shell(words, PLACE="", WAY="")
    assert ("cannot be printed" in ran.stderr) == (status == "1")
    assert "Traceback" not in ran.stderr
    assert Path("status").read_text().strip() == status
    assert unmask.load("out/results.nc").correct.notnull().all()
    assert Path("out/report.txt").read_text()
