"""A run that is killed and started again, for an hour; nothing may be lost or change.

    python bench/soak.py [--minutes 60] [--kills 30] [--workers 0]

A run of twenty-odd cells is made once without disturbance, and then again and again with random ends:
SIGKILL, SIGKILL of the child that does the work, Ctrl-C once, Ctrl-C twice, and with workers the death of one
of them. After each end the cells that were finished are still there, unchanged; after each whole run the
result equals the undisturbed one in every variable but the wall times. Ends after `--minutes`, but not before
`--kills` ends.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MANIFEST = """
name = "soak"
seed = 3
epsilons = ["2/255", "8/255", "16/255"]
batch-size = 50
timeout = 600

[data]
use = "arrays"
path = "data.npz"

[models.plain]
use = "module"
factory = "soak_nets:plain"

[models.noisy]
use = "module"
factory = "soak_nets:noisy"

[attacks.pgd]
use = "pgd"
steps = 40
restarts = 2

[attacks.apgd]
use = "apgd"
steps = 40

[attacks.square]
use = "square"
queries = 150
"""

NETS = """
import torch

class Noisy(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, images):
        return self.inner(images + 0.02 * torch.randn_like(images))

def plain():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(512, 10)
        ).eval()

def noisy():
    return Noisy(plain()).eval()
"""

ENDS = ("kill", "kill", "kill child", "interrupt", "interrupt twice")


def prepare() -> None:
    import numpy as np
    import torch

    Path("soak_nets.py").write_text(NETS)
    Path("soak.toml").write_text(MANIFEST)
    namespace: dict = {}
    exec(NETS, namespace)
    images = torch.rand(150, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        labels = namespace["plain"]()(images).argmax(1)
    np.savez("data.npz", images=images.numpy(), labels=labels.numpy())


def start(folder: str, workers: int) -> subprocess.Popen[bytes]:
    more = ["--workers", str(workers)] if workers else []
    with Path("log.jsonl").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "unmask", "run", "soak.toml", "-o", folder, "--log", "json", *more],
            stdout=subprocess.DEVNULL,
            stderr=log,
        )


def children_of(process: int) -> list[int]:
    """The processes that a process has started itself (Linux)."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def workers_of(process: int) -> list[int]:
    """The workers of a run, which works in a child process."""
    found = [worker for child in children_of(process) for worker in children_of(child)]
    return [worker for worker in found if b"spawn_main" in Path(f"/proc/{worker}/cmdline").read_bytes()]


def end(process: subprocess.Popen[bytes], how: str) -> None:
    if how in ("kill worker", "kill child"):
        mine = workers_of(process.pid) if how == "kill worker" else children_of(process.pid)
        if mine:
            os.kill(random.choice(mine), signal.SIGKILL)
        process.wait()
        return
    if how == "kill":
        process.kill()
    else:
        process.send_signal(signal.SIGINT)
        if how == "interrupt twice":
            time.sleep(0.2)
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
    process.wait()


def kept() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path("soaked/cells").glob("*.cell")}


def differs(one: str, other: str) -> list[str]:
    import unmask

    a, b = unmask.load(one), unmask.load(other)
    return [str(name) for name in a.variables if name != "seconds" and not a[name].identical(b[name])]


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--minutes", type=float, default=60)
    arguments.add_argument("--kills", type=int, default=30, help="ends of a run, at least")
    arguments.add_argument("--workers", type=int, default=0)
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    random.seed(given.seed)
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        prepare()
        began = time.monotonic()
        assert start("whole", 0).wait() == 0, Path("log.jsonl").read_text()[-2000:]
        longest = time.monotonic() - began
        print(f"one undisturbed run: {longest:.0f} s", flush=True)
        ends, runs = dict.fromkeys((*ENDS, "kill worker"), 0), 0
        began = time.monotonic()
        while time.monotonic() - began < given.minutes * 60 or sum(ends.values()) < given.kills:
            shutil.rmtree("soaked", ignore_errors=True)
            before: dict[Path, bytes] = {}
            last = None
            while last != 0:
                process, how = start("soaked", given.workers), None
                try:
                    process.wait(random.uniform(0.1, 0.5) * longest)
                except subprocess.TimeoutExpired:
                    how = random.choice([*ENDS, "kill worker"] if given.workers else ENDS)
                    end(process, how)
                    ends[how] += 1
                last = process.returncode
                # A signal that meets the interpreter as it starts or ends kills it, which a shell calls 130
                # too.
                expected = {0, 130, -signal.SIGKILL, -signal.SIGINT}
                if how == "kill child":
                    # The cell it was at has failed, or there is no run without what it was at, or it was at
                    # nothing that is known by a name.
                    expected |= {1, 2, 3}
                assert last in expected, (how, last, Path("log.jsonl").read_text()[-2000:])
                now = kept()
                assert before.items() <= now.items(), "a finished cell was lost or changed"
                before = now
            wrong = differs("whole/results.nc", "soaked/results.nc")
            assert not wrong, f"the result differs in {wrong}"
            runs += 1
            print(f"{(time.monotonic() - began) / 60:5.1f} min: {runs} whole runs, ends {ends}", flush=True)
        os.chdir("/")


if __name__ == "__main__":
    main()
