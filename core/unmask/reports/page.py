"""The report as one HTML file that needs nothing but itself."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import attrs
import numpy as np
import xarray as xr

from unmask import plotting
from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE, Status
from unmask.reports.content import accuracy_tables
from unmask.reports.figures import inline_svg, picture
from unmask.reports.further import further_tables
from unmask.reports.head import (
    attack_settings,
    notes_and_warnings,
    problem_lines,
    provenance,
    threat_model,
    threat_model_sentence,
)
from unmask.reports.wording import HEADINGS, epsilon_text, indicator_text, verdict_headline
from unmask.results.transfer import transfer_sources

__all__ = ["render_html"]

EXPLORED = 500
"""Samples that the explorer lists; the result file has them all."""

EXPLORED_OUTCOMES = 100_000
"""Outcomes of all cells that it lists at most (of ten samples at least): a browser reads them all."""

SHOWN = 6
"""Examples that the gallery shows for each model and attack."""

FIGURE_MODELS = 8
"""Models that get figures of their own."""


@attrs.frozen
class Figure:
    """A drawn figure.

    Attributes:
        title: What it shows.
        svg: The drawing.
    """

    title: str
    svg: str


@attrs.frozen
class Exhibit:
    """One example of the gallery: three pictures and what they are.

    Attributes:
        caption: Sample, label, prediction, size.
        clean: The clean image, a data URL.
        final: The final example.
        change: The perturbation, magnified.
        factor: By how much.
    """

    caption: str
    clean: str
    final: str
    change: str
    factor: float


def render_html(results: xr.Dataset, level: float = 0.99) -> str:
    """The whole report as one self-contained HTML file: readable on a phone, in light and dark, offline.

    Args:
        results: A result.
        level: Confidence level of the Clopper-Pearson intervals.

    Raises:
        UserError: A level outside (0, 1).
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("unmask.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sortable"] = lambda value: "" if math.isnan(value) else repr(float(value))
    environment.filters["indicator"] = indicator_text
    verdicts = results.unmask.verdict()
    return environment.get_template("report.html").render(
        title=str(results.attrs.get("title") or "Evaluation"),
        version=str(results.attrs.get("unmask_version", "")),
        verdicts=[
            (model, verdict, HEADINGS[verdict.label], verdict_headline(results, model, verdict))
            for model, verdict in verdicts.items()
        ],
        warnings=notes_and_warnings(results),
        problems=problem_lines(results),
        threat_model=threat_model(results, level),
        sentence=threat_model_sentence(results, level),
        attacks=attack_settings(results),
        accuracy=[table for _, table in accuracy_tables(results, level)],
        further=list(further_tables(results, level)),
        figures=list(_figures(results, level)),
        gallery=list(_gallery(results)),
        provenance=provenance(results),
        manifest=str(results.attrs.get("manifest", "")),
        explorer=_explorer(results),
    )


def _figures(results: xr.Dataset, level: float) -> Iterator[Figure]:
    models = [str(name) for name in results[MODEL].values][:FIGURE_MODELS]
    yield Figure(
        "Worst case against epsilon", inline_svg(lambda: plotting.plot_curve(results, level=level), "curves")
    )
    for i, model in enumerate(models):
        yield Figure(
            f"{model}: accuracy against epsilon",
            inline_svg(partial(plotting.plot_curve, results, model, level=level), f"curve-{i}"),
        )
    for i, model in enumerate(models):
        yield Figure(
            f"{model}: reliability",
            inline_svg(partial(plotting.plot_reliability, results, model, level=level), f"reliability-{i}"),
        )
    for i, model in enumerate(models):
        yield Figure(
            f"{model}: minimal distortion",
            inline_svg(partial(plotting.plot_distortion, results, model, level=level), f"distortion-{i}"),
        )
    if transfer_sources(results):
        yield Figure(
            "Transfer",
            inline_svg(lambda: plotting.plot_heatmap(results, transfer=True, level=level), "transfer"),
        )
    if bool(results["gradient_norm"].sel({EPSILON: results[EPSILON].max()}).notnull().any()):
        yield Figure(
            "Gradient health", inline_svg(lambda: plotting.plot_gradient_health(results), "gradients")
        )
    if "trace_small" in results and bool(results["trace_small"].notnull().any()):
        yield Figure("Gradient trace", inline_svg(lambda: plotting.plot_trace(results), "trace"))


def _gallery(results: xr.Dataset) -> Iterator[tuple[str, list[Exhibit]]]:
    """Successful examples at the largest radius, where examples were kept."""
    if "adversarial" not in results or "image" not in results:
        return
    low, high = json.loads(results.attrs.get("bounds", "[0, 1]"))
    here = results.sel({EPSILON: results[EPSILON].max()})
    images = here["image"].transpose(SAMPLE, ...).values
    for model in map(str, here[MODEL].values):
        for attack in map(str, here[ATTACK].values):
            cell = here.sel({MODEL: model, ATTACK: attack})
            broken = (cell["correct"].values < 0.5) & (cell["clean_correct"].values >= 0.5)
            examples = cell["adversarial"].transpose(SAMPLE, ...).values
            exhibits = []
            for k in np.flatnonzero(broken)[:SHOWN]:
                change = examples[k].astype(np.float64) - images[k]
                size = float(np.abs(change).max())
                factor = (high - low) / (2 * size) if size > 0 else 1.0
                middle = (high + low) / 2
                exhibits.append(
                    Exhibit(
                        f"sample {cell[SAMPLE].values[k]}: class {cell['label'].values[k]} taken for "
                        f"{cell['prediction'].values[k]}, distance {float(cell['distance'].values[k]):.4g}",
                        picture(images[k], low, high),
                        picture(examples[k], low, high),
                        picture(middle + factor * change, low, high),
                        factor,
                    )
                )
            if exhibits:
                yield f"{model} under {attack}, epsilon {epsilon_text(float(here[EPSILON]))}", exhibits


def _explorer(results: xr.Dataset) -> dict[str, Any]:
    """What the per-sample explorer shows, as plain lists."""
    cells = results.sizes[MODEL] * results.sizes[ATTACK] * results.sizes[EPSILON]
    shown = min(EXPLORED, max(EXPLORED_OUTCOMES // max(cells, 1), 10))
    part = results.isel({SAMPLE: slice(0, shown)}).transpose(MODEL, ATTACK, EPSILON, SAMPLE, ...)

    def listed(name: str, digits: int = 4) -> Any:
        return _rounded(part[name].values.tolist(), digits)

    return {
        "models": [str(name) for name in part[MODEL].values],
        "attacks": [str(name) for name in part[ATTACK].values],
        "epsilons": [epsilon_text(e) for e in part[EPSILON].values],
        "samples": part[SAMPLE].values.tolist(),
        "total": int(results.sizes[SAMPLE]),
        "labels": part["label"].values.tolist(),
        "clean": {"correct": listed("clean_correct"), "prediction": part["clean_prediction"].values.tolist()},
        "correct": listed("correct"),
        "prediction": part["prediction"].values.tolist(),
        "confidence": listed("confidence", 3),
        "margin": listed("margin", 3),
        "distance": listed("distance", 5),
        "forwards": part["forwards"].values.tolist(),
        "status": part["status"].values.tolist(),
        "meanings": [status.name.lower().replace("_", " ") for status in Status],
    }


def _rounded(values: Any, digits: int) -> Any:
    if isinstance(values, list):
        return [_rounded(value, digits) for value in values]
    return round(values, digits) if math.isfinite(values) else None
