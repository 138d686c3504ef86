"""The numbers of a report as plain tables, the same for every format that has tables."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs
import xarray as xr

from unmask.dimensions import ATTACK, EPSILON, MODEL, is_diagnostic
from unmask.reports.tables import Rate, rates
from unmask.reports.wording import epsilon_text, interval_text, percent
from unmask.results.accessor import Method

__all__ = ["Cell", "NumberTable", "accuracy_tables", "number_cell", "rate_cell", "share_cell"]


UPPER_BOUND = "<= : an attack failed or is unfinished, so the worst case may be lower."


@attrs.frozen
class Cell:
    """One cell of a table.

    Attributes:
        text: What it says.
        note: What stands smaller beside it, such as an interval.
        value: What it is sorted by; NaN where there is no number.
        best: It is the best of its column.
    """

    text: str
    note: str = ""
    value: float = math.nan
    best: bool = False


@attrs.frozen
class NumberTable:
    """A table with a caption that says what its numbers are.

    Attributes:
        title: What it shows.
        columns: Their headings; the first columns name the row.
        names: How many columns name the row.
        rows: The cells, row by row.
        caption: What must be known to read it.
    """

    title: str
    columns: tuple[str, ...]
    names: int
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""


def rate_cell(rate: Rate, prefix: str = "", method: Method = "clopper-pearson") -> Cell:
    """A rate in per cent with its interval as the note: both ends, or half the width of a t interval."""
    if math.isnan(rate.value):
        return Cell("-")
    half = rate.upper - rate.value
    symmetric = method == "t" and math.isclose(half, rate.value - rate.lower, abs_tol=1e-9)
    note = f"\u00b1{percent(half)}" if symmetric else interval_text(rate.lower, rate.upper)
    return Cell(prefix + percent(rate.value), note, rate.value)


def number_cell(value: float, pattern: str = "{:.4f}") -> Cell:
    """A bare number; a dash where there is none."""
    if math.isnan(value):
        return Cell("-")
    return Cell("inf" if math.isinf(value) else pattern.format(value), "", value)


def share_cell(value: float) -> Cell:
    """A fraction in per cent."""
    return Cell(percent(value), "", value)


def _with_best(rows: list[tuple[Cell, ...]], names: int) -> tuple[tuple[Cell, ...], ...]:
    """The highest number of every column marked, where the rows differ."""
    best = []
    for column in zip(*rows, strict=True):
        # A bound on the truth is no best.
        values = {c.value for c in column if not math.isnan(c.value) and not c.text.startswith("<=")}
        best.append(max(values) if len(values) > 1 else math.nan)
    return tuple(
        tuple(
            attrs.evolve(cell, best=True)
            if i >= names and cell.value == best[i] and not cell.text.startswith("<=")
            else cell
            for i, cell in enumerate(row)
        )
        for row in rows
    )


def accuracy_tables(
    results: xr.Dataset, level: float, method: Method = "clopper-pearson"
) -> Iterator[tuple[float, NumberTable]]:
    """For every radius above zero: rows models, columns clean, the attacks and the worst case."""
    clean, each, worst = (
        rates(results, measure, level, method)
        for measure in ("clean_accuracy", "robust_accuracy", "worst_case")
    )
    upper_bound = results.unmask.worst_case()["upper_bound"]
    # What the run added for its verdict has a table of its own.
    attacks = [str(a) for a in results[ATTACK].values if not is_diagnostic(str(a))]
    for epsilon in results[EPSILON].values.tolist():
        if epsilon <= 0:
            continue
        rows, bounded = [], False
        for model in map(str, results[MODEL].values):
            bound = bool(upper_bound.sel({MODEL: model, EPSILON: epsilon}))
            bounded |= bound
            rows.append(
                (
                    Cell(model),
                    rate_cell(clean[(model,)], method=method),
                    *(rate_cell(each[(model, attack, epsilon)], method=method) for attack in attacks),
                    rate_cell(worst[(model, epsilon)], "<= " if bound else "", method),
                )
            )
        caption = UPPER_BOUND if bounded else ""
        yield (
            epsilon,
            NumberTable(
                title=f"Accuracy in %, {results.attrs.get('norm')} epsilon {epsilon_text(epsilon)}",
                columns=("model", "clean", *attacks, "worst case"),
                names=1,
                rows=_with_best(rows, 1),
                caption=caption,
            ),
        )
