"""Tables of transfer between models, and of the randomised ensemble they could make."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import xarray as xr

from unmask import statistics
from unmask.dimensions import EPSILON
from unmask.reports.content import Cell, NumberTable, number_cell, rate_cell, share_cell
from unmask.reports.tables import Rate, finite
from unmask.reports.wording import epsilon_text
from unmask.results.transfer import SOURCE, TARGET, transfer_sources

__all__ = ["transfer_data", "transfer_tables"]


def _rates(results: xr.Dataset, level: float) -> dict[tuple[float, str, str], Rate]:
    """The transfer matrix with its intervals, by (epsilon, source, target)."""
    matrix = results.unmask.transfer_matrix()
    found = {}
    for epsilon in matrix[EPSILON].values.tolist():
        for source in map(str, matrix[SOURCE].values):
            for target in map(str, matrix[TARGET].values):
                at = matrix.sel({EPSILON: epsilon, SOURCE: source, TARGET: target})
                value = float(at)
                hits, total = float(at["numerator"]), float(at["denominator"])
                known = not math.isnan(value)
                ends = statistics.clopper_pearson(hits, total, level) if known else (math.nan, math.nan)
                found[epsilon, source, target] = Rate(value, hits, total, *ends)
    return found


def _makes_an_ensemble(results: xr.Dataset) -> bool:
    """At least two sources are models that were attacked as well."""
    matrix = results.unmask.transfer_matrix()
    return len({*map(str, matrix[SOURCE].values)} & {*map(str, matrix[TARGET].values)}) > 1


def transfer_tables(results: xr.Dataset, level: float) -> Iterator[NumberTable]:
    """For every radius above zero the transfer matrix, and what a randomised ensemble would make of it.

    Args:
        results: A result.
        level: Confidence level of the Clopper-Pearson intervals.
    """
    if not transfer_sources(results):
        return
    matrix, found = results.unmask.transfer_matrix(), _rates(results, level)
    sources, targets = (tuple(map(str, matrix[name].values)) for name in (SOURCE, TARGET))
    ensemble = _makes_an_ensemble(results)
    for epsilon in matrix[EPSILON].values.tolist():
        if epsilon <= 0:
            continue
        radius = f"{results.attrs.get('norm')} epsilon {epsilon_text(epsilon)}"
        yield NumberTable(
            f"Transfer: accuracy in %, {radius}",
            ("examples made on", *targets),
            1,
            tuple(
                (Cell(source), *(rate_cell(found[epsilon, source, target]) for target in targets))
                for source in sources
            ),
            f"Clopper-Pearson intervals at {100 * level:g} %.",
        )
        if ensemble:
            yield _ensemble(results, epsilon, radius)


def _ensemble(results: xr.Dataset, epsilon: float, radius: str) -> NumberTable:
    expected = results.unmask.expected_ensemble_accuracy().sel({EPSILON: epsilon})
    game = results.unmask.best_ensemble_probabilities().sel({EPSILON: epsilon})
    best = results.unmask.best_transfer_source().sel({EPSILON: epsilon})
    rows = []
    for name in map(str, expected[SOURCE].values):
        member = name in game[TARGET].values
        rows.append(
            (
                Cell(name),
                share_cell(float(expected.sel({SOURCE: name}))),
                number_cell(float(game["source_probability"].sel({SOURCE: name})), "{:.3f}"),
                number_cell(float(game["probability"].sel({TARGET: name})) if member else math.nan, "{:.3f}"),
            )
        )
    caption = "A cell of the transfer matrix is missing."
    if str(best.item()):
        uniform, value = (100 * float(game[name]) for name in ("uniform", "value"))
        caption = (
            f"Expected accuracy of an ensemble in which one of {', '.join(map(str, game[TARGET].values))}, "
            "drawn anew for every query, answers. "
            f"The attacker does best with examples made on {best.item()}; equal probabilities are "
            f"sure of {uniform:.2f} %, the best ones of {value:.2f} % (value of the matrix game, chosen and "
            "valued on the same samples)."
        )
    return NumberTable(
        f"Randomised ensemble of these models, by transfer, {radius}",
        (
            "examples made on",
            "expected accuracy, equal probabilities, %",
            "best for the attacker",
            "best for the defender",
        ),
        1,
        tuple(rows),
        caption,
    )


def transfer_data(results: xr.Dataset, level: float) -> dict[str, Any] | None:
    """The same as plain data; None where the run has no transfer from a named model."""
    if not transfer_sources(results):
        return None
    cells = [
        {
            "epsilon": epsilon,
            "source": source,
            "target": target,
            **{
                name: finite(getattr(rate, name))
                for name in ("value", "numerator", "denominator", "lower", "upper")
            },
        }
        for (epsilon, source, target), rate in _rates(results, level).items()
    ]
    ensemble = []
    if _makes_an_ensemble(results):
        expected, best = results.unmask.expected_ensemble_accuracy(), results.unmask.best_transfer_source()
        game = results.unmask.best_ensemble_probabilities()

        def by_name(values: xr.DataArray, dimension: str) -> dict[str, float | None]:
            names = map(str, values[dimension].values)
            return {name: finite(value) for name, value in zip(names, values.values.tolist(), strict=True)}

        for epsilon in expected[EPSILON].values.tolist():
            here = game.sel({EPSILON: epsilon})
            ensemble.append(
                {
                    "epsilon": epsilon,
                    "expected_accuracy": by_name(expected.sel({EPSILON: epsilon}), SOURCE),
                    "best_source": str(best.sel({EPSILON: epsilon}).item()) or None,
                    "uniform": finite(float(here["uniform"])),
                    "value": finite(float(here["value"])),
                    "probabilities": by_name(here["probability"], TARGET),
                    "source_probabilities": by_name(here["source_probability"], SOURCE),
                }
            )
    return {"cells": cells, "ensemble": ensemble}
