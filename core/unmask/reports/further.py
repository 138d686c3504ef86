"""The tables that follow the accuracies: every other measure the result holds."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import xarray as xr

from unmask import statistics
from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE
from unmask.reports.content import Cell, NumberTable, number_cell, rate_cell, share_cell
from unmask.reports.diagnosis import diagnosis_table
from unmask.reports.tables import Rate, rates
from unmask.reports.transfer import transfer_tables
from unmask.reports.wording import epsilon_text

__all__ = ["further_tables"]


def further_tables(results: xr.Dataset, level: float) -> Iterator[NumberTable]:
    """Success, distortion, calibration, certificates, 8-bit validity, transfer, cost; those there are."""
    yield _success(results, level)
    yield _distortion(results)
    if "label_probability" in results and "clean_label_probability" in results:
        yield _calibration(results)
    if "certified_radius" in results:
        yield _certificates(results, level)
    if "correct_quantized" in results:
        yield _quantized(results)
    yield from transfer_tables(results, level)
    yield _gradients_and_cost(results)
    if (diagnosis := diagnosis_table(results)) is not None:
        yield diagnosis


def _places(results: xr.Dataset) -> Iterator[tuple[str, str, float, dict[str, object]]]:
    for model in map(str, results[MODEL].values):
        for attack in map(str, results[ATTACK].values):
            for epsilon in results[EPSILON].values.tolist():
                if epsilon > 0:
                    yield model, attack, epsilon, {MODEL: model, ATTACK: attack, EPSILON: epsilon}


def _success(results: xr.Dataset, level: float) -> NumberTable:
    names = ("attack_success_rate", "attack_success_rate_over_all", "conditional_robust_accuracy")
    found = [rates(results, name, level) for name in names]
    gap = results.unmask.gap()
    rows = [
        (
            Cell(model),
            Cell(attack),
            Cell(epsilon_text(epsilon), "", epsilon),
            *(rate_cell(measure[(model, attack, epsilon)]) for measure in found),
            share_cell(float(gap.sel(place))),
        )
        for model, attack, epsilon, place in _places(results)
    ]
    return NumberTable(
        "Attack success",
        (
            "model",
            "attack",
            "epsilon",
            "success on clean-correct, %",
            "success on all, %",
            "robust of clean-correct, %",
            "gap, points",
        ),
        3,
        tuple(rows),
        f"Clopper-Pearson intervals at {100 * level:g} %.",
    )


def _distortion(results: xr.Dataset) -> NumberTable:
    summary = results.unmask.minimal_distortion()
    above = bool((results[EPSILON] > 0).any())
    areas = {k: results.unmask.area_under_curve(kind=k) for k in ("raw", "monotone")} if above else {}
    rows = []
    for model in map(str, results[MODEL].values):
        for attack in map(str, results[ATTACK].values):
            place = {MODEL: model, ATTACK: attack}
            here = summary.sel(place)
            count, samples = float(here["count"]), float(here["samples"])
            broken = Cell("-") if math.isnan(count) else Cell(f"{count:g} of {samples:g}", "", count)
            rows.append(
                (
                    Cell(model),
                    Cell(attack),
                    number_cell(float(here["median"])),
                    number_cell(float(here["mean"])),
                    broken,
                    *(number_cell(float(area.sel(place))) for area in areas.values()),
                )
            )
    return NumberTable(
        f"Minimal distortion ({results.attrs.get('norm')}) and area under the accuracy curve",
        ("model", "attack", "median", "mean", "broken", *(f"area, {kind}" for kind in areas)),
        2,
        tuple(rows),
        "Distortion: distances found by nearest searches; for searches within a ball the smallest radius of "
        "the run that broke the sample. Clean errors count as 0, unbroken samples as infinite; the mean is "
        "over those that were broken. Area: from radius 0 (clean) to the largest, divided by it.",
    )


def _calibration(results: xr.Dataset, bins: int = 15) -> NumberTable:
    of = results.unmask
    names = ("calibration_error", "brier_score", "negative_log_likelihood", "mean_confidence")

    def measured(examples: str) -> list[xr.DataArray]:
        return [
            of.calibration_error(bins, examples),
            *(getattr(of, name)(examples) for name in names[1:]),
        ]

    clean, final = measured("clean"), measured("final")
    rows = []
    for model in map(str, results[MODEL].values):
        rows.append((Cell(model), Cell("clean"), Cell("0", "", 0.0), *(
            number_cell(float(values.sel({MODEL: model}))) for values in clean
        )))  # fmt: skip
        for other, attack, epsilon, place in _places(results):
            if other == model:
                rows.append((Cell(model), Cell(attack), Cell(epsilon_text(epsilon), "", epsilon), *(
                    number_cell(float(values.sel(place))) for values in final
                )))  # fmt: skip
    return NumberTable(
        "Calibration",
        (
            "model",
            "attack",
            "epsilon",
            "calibration error",
            "Brier score",
            "log-likelihood, negative",
            "confidence, mean",
        ),
        3,
        tuple(rows),
        f"Expected calibration error over {bins} bins of equal width; Brier score from 0 to 2.",
    )


def _certificates(results: xr.Dataset, level: float) -> NumberTable:
    accuracy = results.unmask.certified_accuracy()
    settings = results["certified_radius"].attrs
    rows = []
    for model in map(str, results[MODEL].values):
        here = results.sel({MODEL: model})
        cells = []
        for k in range(accuracy.sizes["radius"]):
            at = accuracy.sel({MODEL: model}).isel(radius=k)
            hits, total = float(at["numerator"]), float(at["denominator"])
            ends = statistics.clopper_pearson(hits, total, level)
            cells.append(rate_cell(Rate(hits / total, hits, total, *ends)))
        abstained = float((here["certified_prediction"] < 0).mean())
        contradicted, checked = (int(here[f"certificate_{n}"].sum()) for n in ("contradicted", "checked"))
        rows.append(
            (
                Cell(model),
                *cells,
                share_cell(abstained),
                Cell(f"{contradicted} of {checked}", "", float(contradicted)),
            )
        )
    stated = ", ".join(f"{k} = {settings[k]:g}" for k in ("sigma", "n", "n0", "alpha") if k in settings)
    return NumberTable(
        "Certified accuracy in % (randomized smoothing, l2)",
        (
            "model",
            *(f"radius {radius:.4g}" for radius in accuracy["radius"].values),
            "abstained, %",
            "contradictions",
        ),
        1,
        tuple(rows),
        f"{stated}. Of the smoothed classifier. Contradictions: of the adversarial examples found within a "
        "certified radius, those at which the smoothed classifier answers otherwise.",
    )


def _quantized(results: xr.Dataset) -> NumberTable:
    rate, coarse = results.unmask.robust_accuracy(), results["correct_quantized"].mean(SAMPLE, skipna=False)
    rows = [
        (
            Cell(model),
            Cell(attack),
            Cell(epsilon_text(epsilon), "", epsilon),
            share_cell(float(rate.sel(place))),
            share_cell(float(coarse.sel(place))),
        )
        for model, attack, epsilon, place in _places(results)
    ]
    return NumberTable(
        "8-bit validity: accuracy in %",
        ("model", "attack", "epsilon", "as found", "rounded to 8 bits"),
        3,
        tuple(rows),
        "Examples rounded to 256 values a pixel inside the ball, and judged again.",
    )


def _gradients_and_cost(results: xr.Dataset) -> NumberTable:
    names = ("gradient_zero", "gradient_nonfinite", "gradient_norm", "forwards", "backwards")
    with np.errstate(all="ignore"):
        means = {name: results[name].mean(SAMPLE) for name in names}
    rows = []
    for model, attack, epsilon, place in _places(results):
        share = [float(means[name].sel(place)) for name in names]
        rows.append(
            (
                Cell(model),
                Cell(attack),
                Cell(epsilon_text(epsilon), "", epsilon),
                share_cell(share[0]),
                share_cell(share[1]),
                number_cell(share[2], "{:.3g}"),
                number_cell(share[3], "{:.0f}"),
                number_cell(share[4], "{:.0f}"),
                number_cell(float(results["seconds"].sel(place)), "{:.2f}"),
            )
        )
    return NumberTable(
        "Gradient health and cost",
        (
            "model",
            "attack",
            "epsilon",
            "zero gradients, %",
            "not finite, %",
            "gradient norm, l2",
            "forwards",
            "backwards",
            "seconds",
        ),
        3,
        tuple(rows),
        "Means over samples; gradients where the attack took any.",
    )
