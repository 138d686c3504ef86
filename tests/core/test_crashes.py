"""Native code that ends the whole process costs its own cell, or is refused in words."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import unmask
from unmask import crashes
from unmask.dimensions import Status
from unmask.errors import UserError

NETS = """
import ctypes
import os
import signal

import torch


class Linear(torch.nn.Module):
    def __init__(self, limit, end):
        super().__init__()
        self.linear = torch.nn.Linear(16, 3)
        with torch.no_grad():
            self.linear.weight.copy_(torch.randn(3, 16, generator=torch.Generator().manual_seed(0)) / 4)
            self.linear.bias.zero_()
        self.limit, self.end = limit, end

    def forward(self, images):
        if images.max() > self.limit and not os.path.exists("mended"):
            self.end()
        return self.linear(images.flatten(1))


def reads_nothing():
    ctypes.string_at(0)


def out_of_memory():
    os.kill(os.getpid(), signal.SIGKILL)


def leave():
    os._exit(0)


def absent():
    return Linear(0.95, leave).eval()


def sound():
    return Linear(2.0, reads_nothing).eval()


def fragile():
    return Linear(0.95, reads_nothing).eval()


def hungry():
    return Linear(0.95, out_of_memory).eval()


def rotten():
    return Linear(0.0, reads_nothing).eval()


def unmade():
    reads_nothing()
"""

MANIFEST = """
name = "crashes"
epsilons = ["0.01", "0.1"]

[data]
use = "arrays"
path = "data.npz"

[attacks.pgd]
use = "pgd"
steps = 5
"""

CRASH = "the process was ended by a crash of native code: SIGSEGV"


def model(name: str) -> str:
    return f'\n[models.{name}]\nuse = "module"\nfactory = "crashing_nets:{name}"\n'


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with samples between 0.1 and 0.9, of which all are right, and models that crash."""
    monkeypatch.chdir(tmp_path)
    Path("crashing_nets.py").write_text(NETS)
    images = 0.1 + 0.8 * torch.rand(20, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    weight = torch.randn(3, 16, generator=torch.Generator().manual_seed(0)) / 4
    np.savez("data.npz", images=images.numpy(), labels=(images.flatten(1) @ weight.T).argmax(1).numpy())
    return tmp_path


def command(*arguments: str, manifest: str) -> list[str]:
    Path("manifest.toml").write_text(manifest)
    return [sys.executable, "-m", "unmask", "run", "manifest.toml", *(arguments or ("-o", "out"))]


def run(*arguments: str, manifest: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments, manifest=manifest), capture_output=True, text=True, timeout=300, check=False
    )


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are attended to on Linux")


@pytest.mark.slow
def test_crashes_cost_their_own_cells_and_a_rerun_repairs_them(place):
    manifest = MANIFEST + "".join(map(model, ["sound", "fragile", "hungry", "absent"]))
    ran = run("--fresh", "-o", "out", manifest=manifest)
    assert ran.returncode == 3, ran.stderr
    results = unmask.load("out/results.nc")
    failed = results.status == Status.FAILED
    assert not failed.sel(model="sound").any()
    assert not failed.sel(epsilon=0.01).any()
    assert failed.sel(model=["fragile", "hungry", "absent"], epsilon=0.1).all()
    said = results.message.sel(attack="pgd", epsilon=0.1)
    segfault, killed, left = (str(said.sel(model=name).item()) for name in ("fragile", "hungry", "absent"))
    line = 1 + NETS.splitlines().index("    ctypes.string_at(0)")
    assert f"{CRASH} in reads_nothing ({place / 'crashing_nets.py'}, line {line})" in segfault
    assert "was ended by SIGKILL: no memory was left, or somebody sent it" in killed
    assert "was ended by an exit in the middle of the work, with status 0" in left
    assert "Traceback" not in ran.stderr

    kept = {path: path.stat().st_mtime_ns for path in Path("out/cells").iterdir()}
    Path("mended").touch()
    assert run(manifest=manifest).returncode == 0
    now = {path: path.stat().st_mtime_ns for path in Path("out/cells").iterdir()}
    assert {path: now[path] for path in kept} == kept
    assert len(now) == len(kept) + 3
    mended = unmask.load("out/results.nc")
    assert not (mended.status == Status.FAILED).any()
    assert run("-o", "unbroken", manifest=manifest).returncode == 0
    unbroken = unmask.load("unbroken/results.nc")
    for name in set(unbroken.variables) - {"seconds"}:
        assert unbroken[name].identical(mended[name]), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "when"), [("rotten", "model 'rotten' was inspected"), ("unmade", "model 'unmade' was made")]
)
def test_a_model_that_cannot_even_be_asked_is_refused_by_its_name(place, name, when):
    ran = run(manifest=MANIFEST + model("sound") + model(name))
    assert ran.returncode == 2, ran.stderr
    assert f"models.{name}: {CRASH} in " in ran.stderr
    assert when in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not list(Path("out").glob("cells/*.cell"))


@pytest.mark.slow
def test_workers_are_given_no_model_that_crashes(place):
    ran = run("-o", "out", "--workers", "1", manifest=MANIFEST + model("rotten") + model("sound"))
    assert ran.returncode == 2, ran.stderr
    assert f"models.rotten: {CRASH}" in ran.stderr


def _children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_running_when_the_command_is_ended(place, number):
    endless = MANIFEST.replace("steps = 5", "steps = 100000000") + model("sound")
    with subprocess.Popen(
        command("-o", "out", "--log", "json", manifest=endless.replace('"0.01", "0.1"', '"0.00001"')),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert any('"begin"' in line for line in process.stderr)
        (child,) = _children(process.pid)
        process.send_signal(number)
        assert process.wait(60) == -number
    given_up = time.monotonic() + 30
    while _alive(child):
        assert time.monotonic() < given_up, "the child works on"
        time.sleep(0.05)


@pytest.mark.slow
def test_after_a_crash_ctrl_c_works_as_before(place):
    manifest = MANIFEST.replace('"0.01", "0.1"', '"0.1"') + model("fragile") + model("sound")
    manifest += '\n[attacks.long]\nuse = "square"\nqueries = 100000000\n'
    with subprocess.Popen(
        command("-o", "out", "--log", "json", manifest=manifest),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        told = map(json.loads, process.stderr)
        assert any(event.get("model") == "sound" and event.get("attack") == "long" for event in told)
        process.send_signal(signal.SIGINT)
        assert next(told)["event"] == "stopping"
        time.sleep(0.2)  # signals at the same moment count as one
        process.send_signal(signal.SIGINT)
        assert [event["event"] for event in told] == ["interrupted"]
        assert process.wait(60) == 130


class _Kept:
    attendant = 1

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, doing: str, until: float | None) -> None:
        self.written.append(doing)

    def is_news(self, words: str) -> bool:
        return True


@pytest.fixture
def note():
    """Notes are written here for the length of a test."""
    before, kept = crashes._here, _Kept()
    crashes.attend(kept, {'{"when": "it rained"}': "the process was ended by SIGBUS"})
    yield kept
    crashes._here = before


def test_the_innermost_work_is_noted_and_the_outer_one_comes_back(note):
    with crashes.noted({"b": 1, "a": 2}), pytest.raises(ZeroDivisionError), crashes.noted({"inner": 3}):
        raise ZeroDivisionError
    assert note.written == ['{"a": 2, "b": 1}', '{"inner": 3}', '{"a": 2, "b": 1}', ""]


def test_work_that_crashed_is_known_and_only_that(note):
    with (
        pytest.raises(UserError, match=r"data: the process was ended by SIGBUS; this was when it rained\."),
        crashes.surviving("it rained", "data"),
    ):
        raise AssertionError("it ran")
    assert note.written == []
    with crashes.surviving("it shone"):
        assert note.written == ['{"when": "it shone"}']


def test_nobody_writes_where_nobody_attends():
    with crashes.noted({"a": 1}), crashes.surviving("it rains"):
        assert crashes._here.note is None


@pytest.mark.slow
def test_a_press_in_a_terminal_counts_once(place):
    """The terminal tells both processes; the batch is finished all the same."""
    long = MANIFEST.replace("steps = 5", "steps = 5000").replace('"0.01", "0.1"', '"0.00001"')
    long = long.replace("[data]", "batch-size = 5\n\n[data]")
    words = command("-o", "out", manifest=long + model("sound"))
    child, terminal = pty.fork()
    if child == 0:
        os.execv(words[0], words)
    shown = ""
    pressed = False
    with contextlib.suppress(OSError):  # how the end of a terminal is told
        while part := os.read(terminal, 4096).decode(errors="replace"):
            shown += part
            if not pressed and "0/1" in shown:
                pressed = True
                time.sleep(0.5)
                os.write(terminal, b"\x03")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130, shown
    assert "press Ctrl-C again" in shown
    assert {path.suffix for path in Path("out/cells").iterdir()} == {".clean", ".part"}
