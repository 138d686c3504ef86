"""Whatever ends a run, nothing is lost and nothing is corrupt; the same command goes on."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

import unmask
from unmask import interrupt
from unmask.cli.main import main
from unmask.errors import UnsavedError, UserError
from unmask.evaluation.progress import Silent
from unmask.results import RunFolder
from unmask.results import folder as folder_module

MANIFEST = """
name = "small"
seed = 1
epsilons = ["0.1", "0.3"]
batch-size = 20

[data]
use = "arrays"
path = "data.npz"

[models.plain]
use = "module"
factory = "surviving_nets:plain"

[attacks.square]
use = "square"
queries = 100

[attacks.pgd]
use = "pgd"
steps = 10
"""

NETS = """
import torch

def plain():
    linear = torch.nn.Linear(16, 3)
    with torch.no_grad():
        linear.weight.copy_(torch.randn(3, 16, generator=torch.Generator().manual_seed(0)) / 4)
        linear.bias.zero_()
    return torch.nn.Sequential(torch.nn.Flatten(), linear).eval()
"""


def problem(count: int = 300) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    namespace: dict = {}
    exec(NETS, namespace)
    model = namespace["plain"]()
    images = torch.rand(count, 1, 4, 4, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        return model, images, model(images).argmax(1)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "surviving_nets.py").write_text(NETS)
    _, images, labels = problem()
    np.savez(tmp_path / "data.npz", images=images.numpy(), labels=labels.numpy())
    (tmp_path / "small.toml").write_text(MANIFEST)
    return tmp_path


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "unmask", "run", "small.toml", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def here(*arguments: str) -> None:
    """A run in this process, which saves its start."""
    with pytest.raises(SystemExit) as ended:
        main(["run", *arguments])
    assert ended.value.code in (0, None)


def events(process: subprocess.Popen[str]) -> Iterator[dict]:
    assert process.stderr is not None
    for line in process.stderr:
        yield json.loads(line)


def same(a: str | Path, b: str | Path) -> None:
    one, other = unmask.load(a), unmask.load(b)
    assert set(one.variables) == set(other.variables)
    for name in set(one.variables) - {"seconds"}:
        assert one[name].identical(other[name]), name


def run(folder: Path | None, attacks: dict, count: int = 60, **options) -> object:
    model, images, labels = problem(count)
    return unmask.evaluate({"m": model}, images, labels, attacks, [0.1, 0.3], out=folder, **options)


@pytest.mark.slow
def test_interrupted_and_killed_runs_go_on_and_end_in_the_same_result(place, capsys):
    here("small.toml", "-o", "whole")

    # Ctrl-C once, in the middle of a cell: the batch is finished and kept.
    process = start("-o", "stopped", "--log", "json")
    told = events(process)
    assert next(e for e in told if e["event"] == "cell")["attack"] == "square"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    rest = list(told)
    assert process.wait() == 130
    assert [e["event"] for e in rest if e["event"] in ("stopping", "interrupted")] == [
        "stopping",
        "interrupted",
    ]
    assert "unmask run small.toml -o stopped" in rest[-1]["message"]
    kept = {p.suffix for p in Path("stopped/cells").iterdir()}
    assert kept & {".part", ".cell"}
    assert not Path("stopped/results.nc").exists()
    assert not Path("stopped/run.lock").exists()

    # Killed at random moments, six times; the lock of a killed run is taken over.
    moments = random.Random(0)
    for _ in range(6):
        process = start("-o", "stopped", "--log", "json")
        if next((e for e in events(process) if e["event"] == "begin"), None) is None:
            break  # it had ended
        time.sleep(moments.uniform(0.0, 0.4))
        process.send_signal(signal.SIGKILL)
        process.wait()
    here("small.toml", "-o", "stopped")
    same("whole/results.nc", "stopped/results.nc")
    assert not [p for p in Path("stopped/cells").iterdir() if p.suffix == ".part"]

    # A result knows where its manifest's paths start.
    Path("elsewhere").mkdir()
    Path("stopped/results.nc").rename("elsewhere/moved.nc")
    capsys.readouterr()
    here("elsewhere/moved.nc", "-o", "again", "--log", "text")
    said = capsys.readouterr().err
    assert "8 of 8 cells" in said
    assert "forwards/s" in said
    same("whole/results.nc", "again/results.nc")


@pytest.mark.slow
def test_ctrl_c_twice_stops_in_the_middle_of_a_batch(place):
    Path("small.toml").write_text(
        MANIFEST.replace("queries = 100", "queries = 1000000").replace('"0.1", "0.3"', '"0.0001"')
    )
    process = start("-o", "out", "--log", "json")
    told = events(process)
    next(e for e in told if e["event"] == "cell")
    process.send_signal(signal.SIGINT)
    assert next(told)["event"] == "stopping"
    assert process.poll() is None
    time.sleep(0.2)  # signals at the same moment count as one
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert [e["event"] for e in told] == ["interrupted"]
    assert process.wait() == 130
    assert time.monotonic() - began < 30
    assert {p.suffix for p in Path("out/cells").iterdir()} == {".clean"}


def _again_and_again(target, images, labels, budget, random):
    while True:
        images = (images + 0.001 * random.signs(images.shape[1:])).clamp(0, 1)
        try:
            target(images)
            time.sleep(0.001)
        except Exception:  # as careless plugins do
            pass


def _sleeps(target, images, labels, budget, random):
    time.sleep(600)


def _loops(target, images, labels, budget, random):
    while True:
        pass


def _goes_on_after_every_error(target, images, labels, budget, random):
    while True:
        try:
            time.sleep(0.01)
        except Exception:
            continue


def _quits(target, images, labels, budget, random):
    raise SystemExit(0)


def _is_out_of_memory(target, images, labels, budget, random):
    raise MemoryError


def _is_out_of_device_memory(target, images, labels, budget, random):
    raise torch.OutOfMemoryError("tried to allocate 3 GiB")


def _own_kind(target, images, labels, budget, random):
    class Odd(BaseException):
        pass

    raise Odd("not an Exception")


def _says(words):
    class Odd(Exception):
        def __str__(self) -> str:
            if words is None:
                raise RuntimeError("nothing to say")
            return words

    def attack(target, images, labels, budget, random):
        raise Odd

    return attack


HOSTILE: dict[str, tuple[Callable, str]] = {
    "hangs and swallows": (_again_and_again, "CellTimeoutError: the cell used up its time"),
    "sleeps": (_sleeps, "CellTimeoutError: the cell used up its time"),
    "goes on": (_goes_on_after_every_error, "CellTimeoutError: the cell used up its time"),
    "loops": (_loops, "CellTimeoutError: the cell used up its time"),
    "quits": (_quits, "SystemExit: 0"),
    "memory": (_is_out_of_memory, "MemoryError"),
    "device memory": (_is_out_of_device_memory, "OutOfMemoryError: tried to allocate 3 GiB"),
    "odd": (_own_kind, "Odd: not an Exception"),
    "cannot say": (_says(None), "Odd: what it says cannot be read"),
    "cannot be encoded": (_says("half of \ud83d"), "Odd: half of \\ud83d"),
    "zeros": (_says("a\0b"), "Odd: a\\0b"),
    "says too much": (_says("word " * 50_000), "Odd: word word"),
    "none": (lambda target, images, labels, budget, random: None, "TypeError: the attack returned NoneType"),
    "text": (lambda target, images, labels, budget, random: "images", "TypeError: the attack returned str"),
    "shape": (
        lambda target, images, labels, budget, random: images[:1],
        "TypeError: the attack returned (1,",
    ),
    "raises": (lambda target, images, labels, budget, random: 1 // 0, "ZeroDivisionError"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_plugin_costs_its_own_cells_alone(tmp_path, name):
    attack, reason = HOSTILE[name]
    timer = signal.getitimer(signal.ITIMER_REAL)[0], signal.getsignal(signal.SIGALRM)
    results = run(tmp_path / "run", {"hostile": attack, "fgsm": "fgsm"}, count=12, timeout=0.6)
    failed = results.status.sel(attack="hostile") == unmask.dimensions.Status.FAILED
    assert bool(failed.all())
    said = str(results.message.sel(attack="hostile", epsilon=0.1).values[0])
    assert said.startswith(reason)
    assert len(said) < 1200
    kept = unmask.load(tmp_path / "run" / "results.nc")
    assert kept.message.identical(results.message)
    assert bool(results.correct.sel(attack="hostile").isnull().all())
    assert bool(results.correct.sel(attack="fgsm").notnull().all())
    # Somebody else's timer (such as that of a test runner) is as before, but for the time that passed.
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) == (timer[0] > 0)
    assert signal.getsignal(signal.SIGALRM) == timer[1]
    # Failed cells are not kept: the next run does them again, and only them.
    assert len(list((tmp_path / "run" / "cells").glob("*.cell"))) == 2


def test_a_timeout_holds_in_any_thread():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        results = pool.submit(run, None, {"loops": _loops, "fgsm": "fgsm"}, count=12, timeout=0.5).result()
    assert "CellTimeoutError" in str(results.message.sel(attack="loops", epsilon=0.1).values[0])
    assert bool(results.correct.sel(attack="fgsm").notnull().all())


def test_the_part_of_a_cell_that_was_finished_is_not_computed_again(tmp_path, monkeypatch):
    whole = run(None, {"square": unmask.attack("square", queries=20)}, batch_size=16)
    asked = {"count": 0}

    class Counting:
        presses, working = 0, False

    monkeypatch.setattr(interrupt, "_current", current := Counting())
    attacked: list[int] = []
    from unmask.evaluation import execution

    real = execution.attack_cell

    def counted(name, configured, subject, batch, *rest, **options):
        attacked.extend(batch.ids.tolist())
        if len(attacked) >= 32:
            current.presses = 1
        asked["count"] += 1
        return real(name, configured, subject, batch, *rest, **options)

    monkeypatch.setattr(execution, "attack_cell", counted)
    square = {"square": unmask.attack("square", queries=20)}
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", square, batch_size=16)
    assert attacked == list(range(32))
    (part,) = (tmp_path / "run" / "cells").glob("*.part")
    monkeypatch.setattr(interrupt, "_current", None)
    attacked.clear()
    current.presses = -(10**9)
    # Another batch size makes no difference.
    results = run(tmp_path / "run", square, batch_size=10)
    assert attacked == [*range(32, 60), *range(60)]
    assert not part.exists()
    for name in ("correct", "forwards", "margin", "status", "distance"):
        np.testing.assert_array_equal(results[name].values, whole[name].values)


def _hold(path: str, ready, done) -> None:
    with RunFolder(path, {"a": "b"}, exclusive=True):
        ready.set()
        done.wait(60)


def test_a_folder_belongs_to_one_process_at_a_time(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(str(tmp_path / "run"), ready, done))
    process.start()
    assert ready.wait(60)
    before = sorted((tmp_path / "run").rglob("*"))
    for fresh in (False, True):
        with pytest.raises(UserError, match=rf"in use by another run \(process {process.pid} on .*\)"):
            RunFolder(tmp_path / "run", {"a": "b"}, exclusive=True, fresh=fresh)
    assert sorted((tmp_path / "run").rglob("*")) == before
    assert not (tmp_path / "run.1").exists()
    process.kill()
    process.join()
    assert (tmp_path / "run" / "run.lock").exists(), "the killed process cannot have cleaned up"
    with RunFolder(tmp_path / "run", {"a": "b"}, exclusive=True) as taken:
        assert taken.resumed
    assert not (tmp_path / "run" / "run.lock").exists()
    with RunFolder(tmp_path / "run", {"a": "c"}, exclusive=True, fresh=True) as fresh:
        assert not fresh.resumed
    assert not list(tmp_path.rglob("run.lock"))


class Told(Silent):
    """What a run says while it goes on."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def warn(self, message: str) -> None:
        self.words.append(message)


@pytest.mark.parametrize("room_again", [True, False])
def test_a_full_disk_stops_no_cell_and_is_said_at_once(tmp_path, monkeypatch, room_again):
    """Finished cells wait for room; the result and every later run are those of an unbroken one."""
    attacks = {"fgsm": "fgsm", "pgd": unmask.attack("pgd", steps=2), "again": unmask.attack("pgd", steps=3)}
    whole = run(None, attacks)
    real, refused = folder_module.write_atomically, []

    def full(path: Path, content: bytes | str) -> None:
        if path.suffix == ".cell" and (len(refused) < 2 or not room_again):
            refused.append(path)
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, content)

    monkeypatch.setattr(folder_module, "write_atomically", full)
    told = Told()
    results = run(tmp_path / "run", attacks, progress=told)
    assert len([words for words in told.words if "No space left on device" in words]) == 1
    np.testing.assert_array_equal(results.correct.values, whole.correct.values)
    assert any("could not be kept" in words for words in json.loads(results.warnings)) is not room_again
    kept = list((tmp_path / "run" / "cells").glob("*.cell"))
    assert len(kept) == (whole.correct[..., 0].size if room_again else 0)
    monkeypatch.setattr(folder_module, "write_atomically", real)
    again = run(tmp_path / "run", attacks)
    np.testing.assert_array_equal(again.correct.values, whole.correct.values)


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 200 KiB; only root can have one."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(mounted)],
            capture_output=True,
            check=False,
        ).returncode
    ):
        pytest.skip("no file system can be mounted here")
    yield mounted
    subprocess.run(["umount", "-l", str(mounted)], check=False)


@pytest.mark.parametrize("ballast", [0, 130, 160, 180, 192, 199])
def test_a_small_disk(small_disk, ballast):
    """However little room there is, the result is whole or absent, and the error is in words."""
    filler = small_disk / "filler"
    filler.write_bytes(b"\0" * 1024 * ballast)
    attacks = {"fgsm": "fgsm", "pgd": unmask.attack("pgd", steps=2)}
    try:
        run(small_disk / "run", attacks, keep_examples=True)
    except UnsavedError as error:
        assert "No space left" in str(error) or "space" in str(error)
        assert not (small_disk / "run" / "results.nc").exists()
        assert isinstance(error.results, xr.Dataset), "what was found is handed over"
    except UserError as error:
        assert "cannot be used as a run folder" in str(error)
        assert not list(small_disk.rglob("*.cell")), "refused before any work, or not at all"
    else:
        unmask.load(small_disk / "run" / "results.nc")
    assert not list(small_disk.rglob("*.tmp"))
    filler.unlink()
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    run(small_disk / "run", attacks, keep_examples=True)
    whole = run(None, attacks, keep_examples=True)
    found = unmask.load(small_disk / "run" / "results.nc")
    np.testing.assert_array_equal(found.correct.values, whole.correct.values)


def test_a_read_only_folder_is_refused_before_any_work(small_disk):
    (small_disk / "run").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(UserError, match=r"cannot be used as a run folder.*Choose another place"):
        run(small_disk / "run", {"fgsm": "fgsm"})
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert list((small_disk / "run").iterdir()) == []


def test_cells_kept_by_an_older_version_are_computed_again(tmp_path):
    attacks = {"fgsm": "fgsm"}
    whole = run(tmp_path / "run", attacks)
    import attrs

    real = RunFolder.load_clean

    def older(self, key):
        kept = real(self, key)
        return kept and attrs.evolve(kept, label_probability=None, squared_probability=None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "load_clean", older)
        again = run(tmp_path / "run", attacks)
    assert set(again.variables) == set(whole.variables)
    np.testing.assert_array_equal(again.correct.values, whole.correct.values)


CODE = """
import unmask
from unmask.evaluation.code import code_of

print([code_of(unmask.attack(name).attack) for name in ("fgsm", "pgd", "square")])
"""


def test_an_attack_has_the_same_hash_in_every_process():
    told = {
        subprocess.run(
            [sys.executable, "-c", CODE],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1, "a run could not go on in another process"
