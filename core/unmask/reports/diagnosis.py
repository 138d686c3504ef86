"""What a run added for its verdict, and what that cost."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE, Status, is_diagnostic
from unmask.reports.content import Cell, NumberTable, number_cell, share_cell
from unmask.reports.wording import epsilon_text

__all__ = ["diagnosis_cost", "diagnosis_sentence", "diagnosis_table"]


def diagnosis_cost(results: xr.Dataset) -> dict[str, Any] | None:
    """Samples, attacks, forwards, backwards and seconds of the diagnosis; None without one."""
    names = [name for name in map(str, results[ATTACK].values) if is_diagnostic(name)]
    told = json.loads(results.attrs.get("diagnosis", "{}"))
    if not names and not told:
        return None
    added, slopes = results.sel({ATTACK: names}), told.get("slopes", {})
    # A search without a radius ran once, and its passes stand at every radius.
    once = xr.DataArray((results["search"].sel({ATTACK: names}).values == "nearest"), dims=ATTACK)
    first = xr.DataArray(np.arange(added.sizes[EPSILON]) == 0, dims=EPSILON)
    counted = {n: float(added[n].where(~once | first, 0).sum()) for n in ("forwards", "backwards")}
    return {
        "samples": int(told.get("samples", results.sizes[SAMPLE])),
        "attacks": names,
        **{name: int(total + slopes.get(name, 0)) for name, total in counted.items()},
        "seconds": float(added["seconds"].sum()) + float(slopes.get("seconds", 0.0)),
    }


def diagnosis_sentence(results: xr.Dataset) -> str:
    """The cost in words, and what becomes of the examples; "" without a diagnosis."""
    cost = diagnosis_cost(results)
    if cost is None:
        return ""
    return (
        f"For the verdict {len(cost['attacks'])} attacks were added on the first {cost['samples']} samples "
        f"(diagnose = true): {cost['forwards']:,} forward and {cost['backwards']:,} backward passes, "
        f"{cost['seconds']:.1f} s in all. The examples they found are real and count in the worst case."
    )


def diagnosis_table(results: xr.Dataset) -> NumberTable | None:
    """Accuracy under every added attack, on the samples it was run on, and its cost; None without any."""
    names = [name for name in map(str, results[ATTACK].values) if is_diagnostic(name)]
    rows = []
    for model in map(str, results[MODEL].values):
        for attack in names:
            for epsilon in results[EPSILON].values.tolist():
                here = results.sel({MODEL: model, ATTACK: attack, EPSILON: epsilon})
                ran = ~here["status"].isin([Status.FAILED.value, Status.NOT_RUN.value])
                count = int(ran.sum())
                if epsilon <= 0 or not count:
                    continue
                correct = float(here["correct"].where(ran).mean())
                rows.append(
                    (
                        Cell(model),
                        Cell(attack),
                        Cell(epsilon_text(epsilon), "", epsilon),
                        number_cell(count, "{:.0f}"),
                        share_cell(correct),
                        number_cell(float(here["forwards"].sum()), "{:.0f}"),
                        number_cell(float(here["backwards"].sum()), "{:.0f}"),
                        number_cell(float(here["seconds"]), "{:.2f}"),
                    )
                )
    if not rows:
        return None
    columns = ("model", "attack", "epsilon", "samples", "accuracy, %", "forwards", "backwards", "seconds")
    return NumberTable("Diagnosis", columns, 3, tuple(rows), diagnosis_sentence(results))
