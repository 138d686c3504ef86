"""The report for programs: plain JSON with a fixed schema."""

from __future__ import annotations

import json
from typing import Any

import attrs
import xarray as xr

from unmask import statistics
from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE
from unmask.reports.diagnosis import diagnosis_cost
from unmask.reports.tables import Rate, finite, problems, rates
from unmask.reports.transfer import transfer_data
from unmask.results.calibration import Examples
from unmask.verdict import Verdict

__all__ = ["REPORT_VERSION", "render_json", "report_data"]

REPORT_VERSION = 1
"""Raised when a key changes its meaning or goes away."""

_MEASURES = ("robust_accuracy", "attack_success_rate", "conditional_robust_accuracy", "gap")


def render_json(results: xr.Dataset, level: float = 0.99) -> str:
    """`report_data` as JSON text; numbers that do not exist are null."""
    return json.dumps(report_data(results, level), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def report_data(results: xr.Dataset, level: float = 0.99) -> dict[str, Any]:
    """Everything the text report says, as plain data.

    Keys: ``report_version``; ``threat_model``; ``level``; ``models`` (by name: ``randomness``, ``draws``,
    ``front_end``, ``clean_accuracy``, ``clean_calibration``, ``certified_accuracy``, ``worst_case`` per
    epsilon, ``verdict``); ``attacks`` (by name: how each is set); ``cells`` (one for each model, attack and
    epsilon, with the four measures, calibration, accuracy in 8 bits, mean passes per sample and wall time);
    ``distortion`` (minimal distortion and area under the curve for each model and attack); ``diagnosis`` (the
    attacks that the run added for the verdict and their cost, or null); ``transfer`` (accuracies by source
    and target, and what a randomised ensemble of the models would make of them, or null); ``problems``;
    ``warnings``. A rate is ``value``, ``numerator``, ``denominator``, ``lower`` and ``upper``; a gap is a
    bare number. The JSON Schema is `docs/report-schema.json`.

    Args:
        results: A result.
        level: Confidence level of the Clopper-Pearson intervals.

    Raises:
        UserError: A level outside (0, 1).
    """
    attributes = results.attrs
    clean, worst = rates(results, "clean_accuracy", level), rates(results, "worst_case", level)
    upper_bound = results.unmask.worst_case()["upper_bound"]
    verdicts = results.unmask.verdict()
    calibration, certified = _calibration(results, "clean"), _certified(results, level)
    models = {}
    for name in map(str, results[MODEL].values):
        here = results.sel({MODEL: name})
        models[name] = {
            "randomness": str(here["randomness"].item()),
            "draws": int(here["draws"].item()),
            "front_end": bool(here["front_end"].item()),
            "description": json.loads(str(here["description"].item()) or "{}"),
            "clean_accuracy": _rate(clean[(name,)]),
            "clean_calibration": {key: finite(float(v.sel({MODEL: name}))) for key, v in calibration.items()},
            "certified_accuracy": certified.get(name, []),
            "worst_case": [
                {
                    "epsilon": epsilon,
                    **_rate(worst[(name, epsilon)]),
                    "upper_bound": bool(upper_bound.sel({MODEL: name, EPSILON: epsilon})),
                }
                for epsilon in results[EPSILON].values.tolist()
            ],
            "verdict": _verdict(verdicts[name]),
        }
    return {
        "report_version": REPORT_VERSION,
        "title": attributes.get("title", ""),
        "unmask_version": attributes.get("unmask_version", ""),
        "created": attributes.get("created", ""),
        "threat_model": {
            "norm": attributes.get("norm", ""),
            "epsilons": results[EPSILON].values.tolist(),
            "bounds": json.loads(attributes.get("bounds", "null")),
            "data": attributes.get("data", ""),
            "samples": int(results.sizes[SAMPLE]),
            "samples_sha256": attributes.get("samples_sha256", ""),
            "seed": attributes.get("seed"),
            "precision": attributes.get("precision", ""),
        },
        "level": level,
        "models": models,
        "attacks": _attacks(results),
        "cells": _cells(results, level),
        "distortion": _distortion(results),
        "diagnosis": diagnosis_cost(results),
        "transfer": transfer_data(results, level),
        "problems": [attrs.asdict(problem) for problem in problems(results)],
        "warnings": json.loads(attributes.get("warnings", "[]")),
    }


def _rate(rate: Rate) -> dict[str, float | None]:
    return {name: finite(value) for name, value in attrs.asdict(rate).items()}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "label": verdict.label,
        "advice": verdict.advice,
        "indicators": [
            {k: finite(v) if isinstance(v, float) else v for k, v in attrs.asdict(indicator).items()}
            for indicator in verdict.indicators
        ],
    }


def _attacks(results: xr.Dataset) -> dict[str, Any]:
    described = {}
    for i, name in enumerate(map(str, results[ATTACK].values)):
        here = results.isel({ATTACK: i})
        described[name] = {
            key: str(here[key].item()) for key in ("use", "access", "gradient", "search", "provider")
        }
        described[name]["settings"] = json.loads(str(here["settings"].item()) or "{}")
    return described


def _cells(results: xr.Dataset, level: float) -> list[dict[str, Any]]:
    measured = {measure: rates(results, measure, level) for measure in _MEASURES if measure != "gap"}
    # A gap may be negative for models scored by draws, where no binomial interval exists.
    gap = results.unmask.gap()
    calibration = _calibration(results, "final")
    coarse = (
        results["correct_quantized"].mean(SAMPLE, skipna=False) if "correct_quantized" in results else None
    )
    passes = {name: results[name].mean(SAMPLE) for name in ("forwards", "backwards")}
    cells = []
    for model, attack, epsilon in measured["robust_accuracy"]:
        place = {MODEL: model, ATTACK: attack, EPSILON: epsilon}
        cells.append(
            {
                "model": model,
                "attack": attack,
                "epsilon": epsilon,
                **{name: _rate(found[(model, attack, epsilon)]) for name, found in measured.items()},
                "gap": finite(float(gap.sel(place))),
                "calibration": {key: finite(float(v.sel(place))) for key, v in calibration.items()},
                "robust_accuracy_8bit": None if coarse is None else finite(float(coarse.sel(place))),
                **{name: finite(float(mean.sel(place))) for name, mean in passes.items()},
                "seconds": finite(float(results["seconds"].sel(place))),
            }
        )
    return cells


def _calibration(results: xr.Dataset, examples: Examples) -> dict[str, xr.DataArray]:
    """The measures of calibration by name; none where the result lacks the probabilities."""
    if "label_probability" not in results or "clean_label_probability" not in results:
        return {}
    of = results.unmask
    return {
        "calibration_error": of.calibration_error(examples=examples),
        "brier_score": of.brier_score(examples),
        "negative_log_likelihood": of.negative_log_likelihood(examples),
        "mean_confidence": of.mean_confidence(examples),
    }


def _certified(results: xr.Dataset, level: float) -> dict[str, list[dict[str, float | None]]]:
    """Certified accuracy at several l2 radii, by model."""
    if "certified_radius" not in results:
        return {}
    accuracy, found = results.unmask.certified_accuracy(), {}
    for model in map(str, results[MODEL].values):
        rows = []
        for radius in accuracy["radius"].values.tolist():
            at = accuracy.sel({MODEL: model, "radius": radius})
            hits, total = float(at["numerator"]), float(at["denominator"])
            rate = Rate(float(at), hits, total, *statistics.clopper_pearson(hits, total, level))
            rows.append({"radius": radius, **_rate(rate)})
        found[model] = rows
    return found


def _distortion(results: xr.Dataset) -> list[dict[str, Any]]:
    """How small a perturbation breaks each model; an infinite median is null, with `count` saying why."""
    summary = results.unmask.minimal_distortion()
    areas = {}
    if bool((results[EPSILON] > 0).any()):
        areas = {kind: results.unmask.area_under_curve(kind) for kind in ("raw", "monotone")}
    return [
        {
            "model": model,
            "attack": attack,
            **{
                name: finite(float(summary[name].sel({MODEL: model, ATTACK: attack})))
                for name in ("median", "mean", "count", "samples")
            },
            "area_under_curve": {
                kind: finite(float(area.sel({MODEL: model, ATTACK: attack}))) for kind, area in areas.items()
            },
        }
        for model in map(str, results[MODEL].values)
        for attack in map(str, results[ATTACK].values)
    ]
