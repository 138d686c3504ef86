"""Trainings that are killed, interrupted, or wanted by two processes at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from unmask.cache import Cache
from unmask.cli.main import main
from unmask.models.checkpoint import Checkpoint
from unmask.models.training_log import TrainingLog
from unmask.weights import read_state_dict

MANIFEST = """\
epsilons = ["8/255"]
[data]
use = "digits"
samples = 20
[models.robust]
use = "noisy.py:noisy"
recipe = {{ use = "adversarial", epochs = {epochs}, batch = 32, steps = 1, epsilon = 0.1, shift = 1 }}
[attacks.pgd]
use = "pgd"
"""

NOISY = """\
import random
import numpy as np
import torch
from torch import nn

class Noisy(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.own = torch.Generator().manual_seed(3)
        self.numbers = np.random.default_rng(4)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Dropout(0.2))
        self.head = nn.Linear(16, classes)

    def forward(self, images):
        if self.training:
            scale = 1 + 0.01 * (random.random() + np.random.rand() + self.numbers.random())
            images = images * scale + 0.01 * torch.rand(images.shape, generator=self.own)
        return self.head(self.body(images))

def noisy(classes=10):
    return Noisy(classes)
"""


def manifest(folder: Path, epochs: int) -> Path:
    (folder / "noisy.py").write_text(NOISY)
    path = folder / "m.toml"
    text = MANIFEST.format(epochs=epochs).replace(
        'use = "noisy.py:noisy"', 'use = "module"\nfactory = "noisy:noisy"'
    )
    path.write_text(text)
    return path


PRESSED = """
import signal, sys
from unmask.cli.main import main
from unmask.models.training_log import TrainingLog

write = TrainingLog.write

def pressed(self, measured):
    write(self, measured)
    if measured["step"] == int(sys.argv[1]):
        signal.raise_signal(signal.SIGINT)

TrainingLog.write = pressed
main(sys.argv[2:])
"""


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit status, output and errors of a process, waited for."""
    out, told = process.communicate(timeout=300)
    return process.returncode, out, told


def start(
    path: Path, cache: Path, *options: str, program: tuple[str, ...] = ("-m", "unmask")
) -> subprocess.Popen[str]:
    environment = {**os.environ, "UNMASK_CACHE": str(cache), "OMP_NUM_THREADS": "1", "COLUMNS": "300"}
    return subprocess.Popen(
        [sys.executable, *program, "train", str(path), "--device", "cpu", *options],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def result(cache: Path) -> dict[str, torch.Tensor]:
    (file,) = (cache / "trained").glob("*.safetensors")
    return read_state_dict(file)


def wait_for(what: Callable[[], Any], process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 60
    while not what():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)


def lines(cache: Path) -> list[dict[str, Any]]:
    (file,) = (cache / "trained").glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def train(path: Path, cache: Path, *options: str) -> int:
    """The same command in this process; its exit status."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setenv("UNMASK_CACHE", str(cache))
        main(["train", str(path), "--device", "cpu", *options])
    return int(end.value.code or 0)


def test_killed_and_interrupted_it_ends_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    path = manifest(tmp_path, epochs=12)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    killed = start(path, broken, "--checkpoint-every", "0")
    kept = broken / "trained"
    wait_for(lambda: list(kept.glob("*.checkpoint")) and len(lines(broken)) > 20, killed)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not list(kept.glob("*.safetensors"))

    # Every process is a new one: what other tests left in this one could change how it rounds.
    before = len(lines(broken))
    options = ("--checkpoint-every", "1000")
    status, out, told = finished(start(path, broken, *options, program=("-c", PRESSED, str(before + 20))))
    assert status == 130, told
    assert "goes on from its checkpoint" in told and "keeping a checkpoint" in told
    assert len(lines(broken)) == before + 20

    status, out, told = finished(start(path, broken))
    assert status == 0, told
    (log,) = kept.glob("*.jsonl")
    assert "goes on from its checkpoint" in told
    assert str(log) in told and str(log) in out
    status, out, told = finished(start(path, whole))
    assert status == 0, told
    assert "training begins; measurements in" in told
    wanted, found = result(whole), result(broken)
    assert wanted.keys() == found.keys()
    assert all(torch.equal(wanted[name], found[name]) for name in wanted)
    assert sorted(file.suffix for file in kept.iterdir()) == [".jsonl", ".safetensors"]

    told_whole, told_broken = lines(whole), lines(broken)
    for line in (*told_whole, *told_broken):
        assert line.pop("seconds") > 0
    assert told_broken == told_whole
    assert [line["step"] for line in told_whole] == list(range(1, len(told_whole) + 1))
    assert told_whole[-1]["loss"] < told_whole[0]["loss"]
    assert told_whole[-1]["accuracy"] > told_whole[0]["accuracy"]


def test_of_two_processes_one_trains_and_the_other_waits(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, cache = manifest(tmp_path, epochs=30), tmp_path / "cache"
    other = start(path, cache)
    wait_for(lambda: list((cache / "trained").glob("*.lock")), other)
    assert train(path, cache) == 0
    out, told = capfd.readouterr()
    assert "trains the same; waiting for its result" in told and f"process {other.pid}" in told
    assert "nothing to train" in out
    said, _ = other.communicate(timeout=60)
    assert other.returncode == 0 and "trained robust" in said
    assert sorted(file.suffix for file in (cache / "trained").iterdir()) == [".jsonl", ".safetensors"]


def test_a_lock_left_by_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    (tmp_path / "k.lock").write_text('{"pid": 1, "host": "elsewhere"}')
    waited: list[str] = []
    with cache.alone("k", waited.append):
        assert waited == []
    assert not (tmp_path / "k.lock").exists()


def test_a_damaged_checkpoint_is_said_and_training_starts_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint(tmp_path / "c")
    assert checkpoint.load() is None
    checkpoint.save({"done": 3, "order": torch.arange(4), "nested": {"rate": 0.5, "name": "a"}})
    state = checkpoint.load()
    assert state is not None and state["done"] == 3 and torch.equal(state["order"], torch.arange(4))
    whole = checkpoint.path.read_bytes()
    checkpoint.path.write_bytes(whole[: len(whole) // 2])
    assert checkpoint.load() is None
    assert "damaged; training starts anew" in caplog.text
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


def test_a_log_goes_on_at_the_step_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    first = TrainingLog(path, anew=True)
    for step in (1, 2, 3):
        first.write({"step": step, "loss": 1.0})
    with path.open("a") as file:
        file.write('{"step": 4, "lo')
    again = TrainingLog(path)
    for step in (3, 4):
        again.write({"step": step, "loss": 2.0})
    read = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["step"], line["loss"]) for line in read] == [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0)]
