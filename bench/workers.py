"""Two workers against one process, on a manifest of ten cells.

    OMP_NUM_THREADS=1 python bench/workers.py [--workers 2] [--samples 200] [--steps 20]

Both run the same evaluation: one model, ten attacks, one radius, so ten cells that do not depend on each
other. Told are the seconds with the start of all processes, from the first cell to the last, and the
processor seconds of all processes together, which say what sharing costs whatever else the machine does. The
results must be equal, bit for bit. The speed-up wants an idle machine.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NETS = """
import torch

def net(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(),
            torch.nn.Conv2d(32, 32, 3, padding=1, stride=2), torch.nn.ReLU(),
            torch.nn.Conv2d(32, 64, 3, padding=1, stride=2), torch.nn.ReLU(),
            torch.nn.Flatten(), torch.nn.Linear(4096, 10),
        ).eval()
"""


def manifest(steps: int) -> str:
    attacks = "".join(f'[attacks.pgd-{k}]\nuse = "pgd"\nsteps = {steps}\n\n' for k in range(10))
    return (
        'name = "ten"\nepsilons = ["0.000001"]\nprepare = "eager"\n\n[data]\nuse = "arrays"\n'
        f'path = "data.npz"\n\n[models.net]\nuse = "module"\nfactory = "ten_nets:net"\n\n{attacks}'
    )


def prepare(samples: int, steps: int) -> None:
    import numpy as np
    import torch

    Path("ten_nets.py").write_text(NETS)
    Path("ten.toml").write_text(manifest(steps))
    namespace: dict = {}
    exec(NETS, namespace)
    images = torch.rand(samples, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        # All are right and hardly any falls at these radii, so that every cell is the same work.
        labels = namespace["net"]()(images).argmax(1)
    np.savez("data.npz", images=images.numpy(), labels=labels.numpy())


def timed(folder: str, *more: str) -> tuple[float, float, float]:
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        [sys.executable, "-m", "unmask", "run", "ten.toml", "-o", folder, "--log", "json", *more],
        capture_output=True,
        text=True,
        check=False,
    )
    whole = time.perf_counter() - began
    if ran.returncode:
        raise SystemExit(ran.stderr[-2000:])
    told = [json.loads(line) for line in ran.stderr.splitlines() if line.startswith("{")]
    moments = [datetime.datetime.fromisoformat(e["time"]) for e in told if e["event"] in ("cell", "finished")]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return whole, (moments[-1] - moments[0]).total_seconds(), processor


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--samples", type=int, default=200)
    arguments.add_argument("--steps", type=int, default=20)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        prepare(given.samples, given.steps)
        load = os.getloadavg()[0]
        serial = timed("serial")
        workers = timed("workers", "--workers", str(given.workers))
        import unmask

        one, other = unmask.load("serial/results.nc"), unmask.load("workers/results.nc")
        wrong = [n for n in one.variables if n != "seconds" and not one[n].identical(other[n])]
        os.chdir("/")
    print(f"load before {load:.1f}, {os.cpu_count()} cores")
    for what, k in (("with start", 0), ("cells alone", 1), ("processor", 2)):
        print(
            f"{what}: serial {serial[k]:.1f} s, {given.workers} workers {workers[k]:.1f} s: "
            f"{serial[k] / workers[k]:.2f} x"
        )
    print("results are equal" if not wrong else f"RESULTS DIFFER in {wrong}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
