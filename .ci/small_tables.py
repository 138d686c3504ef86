"""Runs manifests/small and holds the results to what the paper found.

    python .ci/small_tables.py [--out FOLDER] [TABLE ...]

Needs no network and no accelerator. What is trained is kept in the cache, so that the tables share it.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import xarray as xr

from unmask.manifest.reading import read_manifest
from unmask.running import run_manifest

SMALL = Path(__file__).parents[1] / "manifests" / "small"
FRONT, ROBUST, MANY = "+front", "adversarial", re.compile(r" \d+x$")


def main() -> int:
    """Run the tables, print every law, and say by the exit status whether all are kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="*", help="such as table-01; all when none is named")
    parser.add_argument("--out", type=Path, default=Path("runs/small"), help="folder of the run folders")
    asked = parser.parse_args()
    begun, broken, held = time.monotonic(), [], 0
    for file in sorted(SMALL.glob("*.toml")):
        if asked.tables and file.stem not in asked.tables:
            continue
        since = time.monotonic()
        results = run_manifest(read_manifest(file), asked.out / file.stem)
        print(f"\n{file.stem} ({time.monotonic() - since:.0f} s)")
        for law, kept in laws(results):
            print(f"  {'kept  ' if kept else 'BROKEN'} {law}", flush=True)
            held += kept
            broken += [] if kept else [f"{file.stem}: {law}"]
    print(f"\n{held} kept, {len(broken)} broken, {time.monotonic() - begun:.0f} s", *broken, sep="\n  ")
    return 1 if broken or not held else 0


def laws(results: xr.Dataset) -> Iterator[tuple[str, bool]]:
    """Every law that a result can say something about, in words with its numbers, and whether it is kept."""
    clean = results.unmask.clean_accuracy().to_series()
    # Where there are several radii, the one of the training.
    at = results["epsilon"].values[abs(results["epsilon"].values - 0.2).argmin()]
    left = results.unmask.robust_accuracy().sel(epsilon=at).to_pandas()
    attacks = set(left.columns)
    models = list(map(str, left.index))
    guarded = [m for m in models if FRONT in m and ROBUST not in m]
    for model in guarded:
        plain = model.replace(FRONT, "")
        if plain not in models:
            plain = MANY.sub("", plain)
        yield (
            f"{model}: clean {clean[model]:.3f} within 3 points of {plain}: {clean[plain]:.3f}",
            abs(clean[model] - clean[plain]) <= 0.03 + 1e-9,
        )
        if {"pgd", "bpda-pgd"} <= attacks:
            pgd, bpda = left.loc[model, "pgd"], left.loc[model, "bpda-pgd"]
            yield f"{model}: PGD leaves {pgd:.3f}, 40 points above BPDA: {bpda:.3f}", pgd - bpda >= 0.4
        single = MANY.sub("", model)
        if model == single or single not in models:
            continue
        if "square" in attacks:
            many, one = left.loc[model, "square"], left.loc[single, "square"]
            yield (
                f"{model}: Square leaves {many:.3f}, 20 points above the single one: {one:.3f}",
                many - one >= 0.2,
            )
        if "zero-order-pgd" in attacks:
            many, one = (left.loc[m, "zero-order-pgd"] for m in (model, single))
            yield (
                f"{model}: zero-order PGD leaves {many:.3f}, no less than the single one: {one:.3f}",
                many >= one,
            )
    verdicts = {model: verdict.label for model, verdict in results.unmask.verdict().items()}
    telling = {"bpda-pgd", "square", "zero-order-pgd"} & attacks
    for model in models:
        if model in guarded and telling and {"pgd", "apgd-ce"} & attacks:
            yield f"{model}: the verdict is {verdicts[model]}, to be masked", verdicts[model] == "masked"
        if FRONT not in model:
            yield f"{model}: the verdict is {verdicts[model]}, not to be masked", verdicts[model] != "masked"


if __name__ == "__main__":
    sys.exit(main())
