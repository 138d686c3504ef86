"""Workers give what one process gives, bit for bit, whatever becomes of them."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import unmask
from unmask.engines.arithmetic import answers_hash
from unmask.engines.choice import EngineChoice
from unmask.errors import UserError
from unmask.evaluation.inspection import inspect_model

distributed = pytest.importorskip("distributed")

NETS = """
import torch
import unmask

class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return torch.zeros_like(g)

class Front(torch.nn.Module):
    def forward(self, x):
        return Straight.apply(x)

class Noisy(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x + 0.05 * torch.randn_like(x))

def plain():
    generator = torch.Generator().manual_seed(0)
    linear = torch.nn.Linear(16, 3)
    with torch.no_grad():
        linear.weight.copy_(torch.randn(3, 16, generator=generator) / 4)
        linear.bias.zero_()
    return torch.nn.Sequential(torch.nn.Flatten(), linear).eval()

def guarded():
    return unmask.Defended(Front(), plain()).eval()

def noisy():
    return Noisy(plain()).eval()

def scripted():
    return torch.jit.trace(plain(), torch.rand(2, 1, 4, 4))
"""

MANIFEST = """
name = "small"
seed = 1
epsilons = ["0", "0.1", "0.3"]
keep-examples = true

[data]
use = "arrays"
path = "data.npz"

[models.plain]
use = "module"
factory = "nets_of_workers:plain"

[models.guarded]
use = "module"
factory = "nets_of_workers:guarded"

[models.noisy]
use = "module"
factory = "nets_of_workers:noisy"

[models.scripted]
use = "module"
factory = "nets_of_workers:scripted"

[models.mixed]
ensemble = { use = "randomized", members = ["plain", "guarded"] }

[attacks.pgd]
use = "pgd"
steps = 5

[attacks.bpda]
use = "pgd"
steps = 5
gradient = "bypass"

[attacks.square]
use = "square"
queries = 20

[attacks.transfer]
use = "transfer"
source = "plain"
attack = { use = "pgd", steps = 3 }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "nets_of_workers.py").write_text(NETS)
    namespace: dict = {"__name__": "nets_of_workers"}
    exec(NETS, namespace)
    images = torch.rand(300, 1, 4, 4, generator=torch.Generator().manual_seed(2))
    labels = namespace["plain"]()(images).argmax(1)
    np.savez(tmp_path / "data.npz", images=images[:40].numpy(), labels=labels[:40].numpy())
    np.savez(tmp_path / "more.npz", images=images.numpy(), labels=labels.numpy())
    (tmp_path / "small.toml").write_text(MANIFEST)
    return tmp_path


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "unmask", *arguments], capture_output=True, text=True, check=False
    )


def same(a: str | Path, b: str | Path) -> None:
    one, other = unmask.load(a), unmask.load(b)
    assert set(one.variables) == set(other.variables)
    for name in set(one.variables) - {"seconds"}:
        assert one[name].identical(other[name]), name


@pytest.mark.slow
def test_two_workers_give_the_serial_result(folder):
    assert command("run", "small.toml", "-o", "serial").returncode == 0
    ran = command("run", "small.toml", "-o", "workers", "--workers", "2")
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    same("serial/results.nc", "workers/results.nc")
    # Either goes on with what the other has kept.
    kept = {path: path.stat().st_mtime_ns for path in Path("workers/cells").iterdir()}
    assert command("run", "small.toml", "-o", "workers").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in Path("workers/cells").iterdir()} == kept


HOSTILE = """
import ctypes
import os
import time

import torch


def crashes(target, images, labels, budget, random):
    os.kill(os.getpid(), 11)


def sleeps(target, images, labels, budget, random):
    time.sleep(1000)


def holds_on(target, images, labels, budget, random):
    ctypes.PyDLL(None).sleep(1000)  # and lets no other thread run meanwhile


def asks_to_end(target, images, labels, budget, random):
    os.kill(os.getpid(), 15)
    time.sleep(100)


def dies_once(target, images, labels, budget, random):
    if not os.path.exists("died"):
        open("died", "w").close()
        os.kill(os.getpid(), 9)
    target(images)
    return images.clamp(0, 1)


def quits(target, images, labels, budget, random):
    raise SystemExit(0)
"""


def problem() -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    linear = torch.nn.Linear(16, 3)
    with torch.no_grad():
        linear.weight.copy_(torch.randn(3, 16, generator=torch.Generator().manual_seed(0)) / 4)
        linear.bias.zero_()
    model = torch.nn.Sequential(torch.nn.Flatten(), linear).eval()
    images = torch.rand(20, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return model, images, model(images).argmax(1)


@pytest.mark.slow
def test_a_plugin_that_ends_its_worker_costs_its_own_cell(folder, monkeypatch):
    (folder / "hostile_attacks.py").write_text(HOSTILE)
    monkeypatch.syspath_prepend(str(folder))
    hostile = importlib.import_module("hostile_attacks")
    model, images, labels = problem()
    pgd = unmask.attack("pgd", steps=5)
    results = unmask.evaluate(
        {"m": model},
        images,
        labels,
        {
            "crashes": hostile.crashes,
            "sleeps": hostile.sleeps,
            "asks-to-end": hostile.asks_to_end,
            "holds-on": hostile.holds_on,
            "dies-once": hostile.dies_once,
            "quits": hostile.quits,
            "pgd": pgd,
        },
        [0.1],
        workers=2,
        timeout=5.0,
    )
    said = {str(a): str(results.message.sel(attack=a).values.item()) for a in results.attack.values}
    for name in ("crashes", "asks-to-end"):
        assert "its worker process died 2 times while nothing else" in said[name]
    over = "CellTimeoutError: the cell used up its time, did not end, and was ended by force"
    assert said["sleeps"] == said["holds-on"] == over
    assert said["quits"] == "SystemExit: 0"
    assert said["dies-once"] == said["pgd"] == ""
    assert (folder / "died").exists(), "the worker was not killed"
    alone = unmask.evaluate({"m": model}, images, labels, {"pgd": pgd}, [0.1])
    np.testing.assert_array_equal(
        results.correct.sel(attack="pgd").values[0], alone.correct.sel(attack="pgd").values[0]
    )
    assert results.attrs["computed"].count('"workers": 2') == 1


@pytest.mark.slow
def test_a_running_scheduler_is_used_and_left_as_it_was(folder):
    model, images, labels = problem()
    alone = unmask.evaluate({"m": model}, images, labels, {"pgd": "pgd"}, [0.1])
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None, silence_logs=50
    ) as cluster:
        results = unmask.evaluate(
            {"m": model}, images, labels, {"pgd": "pgd"}, [0.1], scheduler=cluster.scheduler_address
        )
        assert len(cluster.workers) == 1
    for name in ("correct", "forwards", "margin"):
        np.testing.assert_array_equal(results[name].values, alone[name].values)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"engine": "dusk"}, "engine: 'dusk' is unknown. Did you mean 'dask'?"),
        ({"workers": 0}, "workers: must be at least 1, not 0"),
        ({"workers": "two"}, "workers: must be a whole number"),
        ({"engine": "serial", "workers": 2}, "workers: the serial engine has none"),
        ({"workers": 2, "scheduler": "tcp://a:1"}, "workers: a running scheduler has its own"),
        ({"scheduler": ""}, "scheduler: must be the address"),
    ],
)
def test_wrong_choices_are_refused_in_words(asked, words):
    with pytest.raises(UserError) as refused:
        EngineChoice.checked(**asked)
    assert words in str(refused.value)


def test_without_dask_the_way_out_is_told(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'unmask\[dask\]'"):
        EngineChoice.checked(workers=2)
    assert EngineChoice.checked().name == "serial"


def test_what_cannot_be_sent_is_named(folder):
    model, images, labels = problem()
    model.lock = threading.Lock()
    with pytest.raises(UserError, match="cannot be sent to workers"):
        unmask.evaluate({"m": model}, images, labels, {"pgd": "pgd"}, [0.1], workers=1)


def test_a_scheduler_that_does_not_answer_is_an_error_in_words():
    model, images, labels = problem()
    with pytest.raises(UserError, match="no Dask scheduler answers at 'nonsense://'"):
        unmask.evaluate({"m": model}, images, labels, {"pgd": "pgd"}, [0.1], scheduler="nonsense://")


class InPlace(torch.nn.Module):
    """Works in the images that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.linear(images.sub_(0.5).flatten(1))


class Severed(InPlace):
    """Its answer has a graph, which does not lead back to the images."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.linear(images.detach().clone().requires_grad_().flatten(1))


@pytest.mark.parametrize("kind", [InPlace, Severed])
def test_what_workers_must_compute_can_be_asked_of_odd_models(kind):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind().eval()
    images = torch.rand(20, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    before = images.clone()
    facts = inspect_model(model, images, torch.zeros(20, dtype=torch.int64))
    assert answers_hash(facts, images) == answers_hash(facts, images)
    assert torch.equal(images, before)
