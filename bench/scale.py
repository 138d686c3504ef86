"""A large result: 10 000 samples, 8 models, 8 attacks, 5 radii, written, merged and reported.

    python bench/scale.py [--samples 10000] [--shards 40]

Outcomes are made up, cell by cell, as a run would leave them; nothing is attacked. Every step runs in a
process of its own, which tells its time and the most memory it ever held. The same is done with half the
samples: a step whose time more than triples has something quadratic in it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 1536
"""MiB that no step may exceed."""

MODELS, ATTACKS, RADII = 8, 8, 5
STEPS = ("write", "merge", "report", "html", "json")


def outcome(generator, samples: int, strength: float):
    import numpy as np

    from unmask.dimensions import Status
    from unmask.results import CellOutcome

    correct = (generator.random(samples) > strength).astype(float)
    share = generator.random(samples)
    return CellOutcome(
        correct=correct,
        screening=correct,
        prediction=generator.integers(0, 10, samples),
        confidence=share,
        margin=correct - 0.5,
        distance=share / 10,
        forwards=generator.integers(1, 500, samples),
        backwards=generator.integers(1, 500, samples),
        status=np.full(samples, Status.OK),
        gradient_zero=np.zeros(samples),
        gradient_nonfinite=np.zeros(samples),
        gradient_norm=share,
        label_probability=share,
        squared_probability=share,
        seconds=1.0,
    )


def made_up(first: int, samples: int):
    """A result of some samples, as `evaluate` assembles it."""
    import numpy as np

    from unmask.results import CleanOutcome
    from unmask.results.layout import AttackLabel, ModelLabel, Provenance, assemble

    generator = np.random.default_rng(first)
    models = [ModelLabel(f"model {m}") for m in range(MODELS)]
    kinds = ("gradients", "scores")
    attacks = [AttackLabel(f"attack {a}", "pgd", kinds[a % 2], "autograd") for a in range(ATTACKS)]
    radii = [(e + 1) / 255 for e in range(RADII)]
    ones, share = np.ones(samples), generator.random(samples)
    clean = CleanOutcome(
        correct=ones,
        screening=ones,
        prediction=generator.integers(0, 10, samples),
        confidence=share,
        margin=share,
        label_probability=share,
        squared_probability=share,
    )
    cells = {
        (m.name, a.name, e): outcome(generator, samples, 0.1 * (i + 1))
        for m in models
        for a in attacks
        for i, e in enumerate(radii)
    }
    return assemble(
        models=models,
        attacks=attacks,
        epsilons=radii,
        sample_ids=np.arange(first, first + samples),
        labels=generator.integers(0, 10, samples),
        clean={m.name: clean for m in models},
        cells=cells,
        provenance=Provenance(
            title="scale",
            unmask_version="0",
            created="2024-01-01",
            norm="linf",
            bounds=(0.0, 1.0),
            seed=0,
            precision="float32",
            device="cpu",
            versions={},
        ),
    )


def write(folder: Path, samples: int) -> None:
    """The whole result in one file, and the same in four parts."""
    from unmask.results import save

    save(made_up(0, samples), folder / "whole.nc")
    for part in range(4):
        save(made_up(part * samples // 4, samples // 4), folder / f"part {part}.nc")


def step(name: str, folder: Path, samples: int) -> None:
    from unmask.cli.main import main

    if name == "write":
        write(folder, samples)
        return
    parts = [str(folder / f"part {part}.nc") for part in range(4)]
    whole, out = str(folder / "whole.nc"), str(folder / f"report.{name}")
    arguments = {
        "merge": ["merge", *parts, "-o", str(folder / "merged.nc")],
        "report": ["report", whole, "-o", out],
        "html": ["report", whole, "--format", "html", "-o", out],
        "json": ["report", whole, "--format", "json", "-o", out],
    }[name]
    try:
        main(arguments)
    except SystemExit as ended:
        if ended.code:
            raise


def measured(name: str, folder: Path, samples: int) -> dict[str, float]:
    began = time.perf_counter()
    made = subprocess.run(
        [sys.executable, __file__, "--step", name, "--folder", str(folder), "--samples", str(samples)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if made.returncode:
        raise SystemExit(f"{name} with {samples} samples ended with {made.returncode}")
    peak = json.loads(made.stdout.splitlines()[-1])["MiB"]
    return {"seconds": round(time.perf_counter() - began, 1), "MiB": peak}


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--samples", type=int, default=10_000)
    arguments.add_argument("--step", choices=STEPS)
    arguments.add_argument("--folder", type=Path)
    given = arguments.parse_args()
    if given.step:
        step(given.step, given.folder, given.samples)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
            1024 if sys.platform != "darwin" else 2**20
        )
        print(json.dumps({"MiB": round(peak)}))
        return
    failed = False
    with tempfile.TemporaryDirectory() as place:
        for name in STEPS:
            found = {}
            for samples in (given.samples // 2, given.samples):
                folder = Path(place) / str(samples)
                folder.mkdir(exist_ok=True)
                found[samples] = measured(name, folder, samples)
            half, whole = found.values()
            growth = whole["seconds"] / half["seconds"]
            good = whole["MiB"] <= LIMIT and growth < 3
            failed |= not good
            print(
                f"{name:7} {whole['seconds']:7.1f} s ({growth:.1f} x that of half the samples) "
                f"{whole['MiB']:6.0f} MiB  {'' if good else 'TOO MUCH'}",
                flush=True,
            )
    print(f"limit {LIMIT} MiB, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
