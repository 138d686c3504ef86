"""The report for the terminal: the verdict first, then the numbers, then everything needed to judge them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import xarray as xr
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unmask.dimensions import ATTACK, EPSILON, MODEL, is_diagnostic
from unmask.reports.diagnosis import diagnosis_sentence, diagnosis_table
from unmask.reports.fitting import FittingTable
from unmask.reports.head import attack_settings, notes_and_warnings, problem_lines, threat_model_sentence
from unmask.reports.tables import Rate, rates
from unmask.reports.wording import (
    HEADINGS,
    epsilon_text,
    indicator_text,
    interval_text,
    percent,
    verdict_headline,
)
from unmask.verdict import Verdict

__all__ = ["render_text", "text_report"]

_STYLES = {"masked": "bold red", "no-sign": "bold green", "inconclusive": "bold yellow"}


def render_text(results: xr.Dataset, console_width: int = 100, level: float = 0.99) -> str:
    """The whole report as plain text.

    Args:
        results: A result.
        console_width: Columns.
        level: Confidence level of the Clopper-Pearson intervals.

    Raises:
        UserError: A level outside (0, 1).
    """
    console = Console(file=io.StringIO(), width=console_width, color_system=None, legacy_windows=False)
    console.print(text_report(results, level))
    file = console.file
    assert isinstance(file, io.StringIO)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def text_report(results: xr.Dataset, level: float = 0.99) -> Group:
    """The same as something a `rich.console.Console` prints, in colour where it can."""
    verdicts = results.unmask.verdict()
    parts: list[RenderableType] = [
        Text(str(results.attrs.get("title") or "Evaluation"), style="bold"),
        *_headlines(results, verdicts),
        Text(""),
        _threat_model(results, level),
        *_tables(results, level),
        *_indicators(verdicts),
        *_diagnosis(results),
        *_settings(results),
        *_notes(results),
        *_problems(results),
    ]
    return Group(*parts)


def _headlines(results: xr.Dataset, verdicts: Mapping[str, Verdict]) -> Iterator[RenderableType]:
    for model, verdict in verdicts.items():
        line = Text(f"{model}: ", style="bold")
        line.append(HEADINGS[verdict.label], style=_STYLES[verdict.label])
        line.append(f" - {verdict_headline(results, model, verdict)}", style="not bold")
        yield line


def _threat_model(results: xr.Dataset, level: float) -> Text:
    return Text(f"Threat model: {threat_model_sentence(results, level)}")


def _tables(results: xr.Dataset, level: float) -> Iterator[RenderableType]:
    clean, each = rates(results, "clean_accuracy", level), rates(results, "robust_accuracy", level)
    worst = rates(results, "worst_case", level)
    upper_bound = results.unmask.worst_case()["upper_bound"]
    # What the run added for its verdict has a table of its own.
    attacks = [str(a) for a in results[ATTACK].values if not is_diagnostic(str(a))]
    for epsilon in results[EPSILON].values.tolist():
        if epsilon <= 0:
            continue
        bounds = {
            model: bool(upper_bound.sel({MODEL: model, EPSILON: epsilon}))
            for model in map(str, results[MODEL].values)
        }
        cells = {
            model: {
                "clean": _cell(clean[(model,)]),
                **{attack: _cell(each[(model, attack, epsilon)]) for attack in attacks},
                "worst case": _cell(worst[(model, epsilon)], "<= " if bound else ""),
            }
            for model, bound in bounds.items()
        }
        title = f"Accuracy in %, {results.attrs.get('norm')} epsilon {epsilon_text(epsilon)}"
        yield Text("")
        yield FittingTable(["clean", *attacks, "worst case"], partial(_table, title, cells))
        if any(bounds.values()):
            yield Text("<= : an attack failed or is unfinished, so the worst case may be lower.")


def _table(title: str, cells: Mapping[str, Mapping[str, Text]], columns: Sequence[str], first: bool) -> Table:
    table = Table(title=Text(title if first else f"{title} (continued)"), title_justify="left")
    table.add_column("model", overflow="fold")
    for column in columns:
        table.add_column(Text(column), justify="right", no_wrap=True)
    for model, row in cells.items():
        table.add_row(Text(model), *(row[column] for column in columns))
    return table


def _cell(rate: Rate, prefix: str = "") -> Text:
    """The rate above its interval."""
    if rate.value != rate.value:
        return Text("-")
    return Text(f"{prefix}{percent(rate.value)}\n{interval_text(rate.lower, rate.upper)}")


def _indicators(verdicts: Mapping[str, Verdict]) -> Iterator[RenderableType]:
    yield from _heading("Why")
    for model, verdict in verdicts.items():
        yield Text(model, style="bold")
        for indicator in verdict.fired:
            yield _item(f"{indicator_text(indicator)}. {indicator.advice}")
        quiet = [i for i in verdict.indicators if not i.fired and i.evidence]
        seen = [indicator_text(i) for i in quiet if i.samples]
        if seen:
            yield _item(f"looked for and not seen: {'; '.join(seen)}.")
        yield from (_item(f"{indicator_text(i)}. {i.advice}") for i in quiet if not i.samples)
        yield _item(verdict.advice)


def _diagnosis(results: xr.Dataset) -> Iterator[RenderableType]:
    numbers = diagnosis_table(results)
    if numbers is None:
        return
    yield from _heading("Diagnosis")
    yield Text(diagnosis_sentence(results))
    table = Table()
    for i, column in enumerate(numbers.columns):
        table.add_column(column, justify="left" if i < numbers.names else "right")
    for row in numbers.rows:
        table.add_row(*(Text(cell.text) for cell in row))
    yield table


def _settings(results: xr.Dataset) -> Iterator[RenderableType]:
    yield from _heading("Attacks")
    yield from (_item(f"{attack.name}: {attack.sentence}") for attack in attack_settings(results))


def _notes(results: xr.Dataset) -> Iterator[RenderableType]:
    notes = notes_and_warnings(results)
    if notes:
        yield from _heading("Notes and warnings")
        yield from (_item(note) for note in notes)


def _problems(results: xr.Dataset) -> Iterator[RenderableType]:
    lines = problem_lines(results)
    if lines:
        yield from _heading("Cells without a rate")
        yield from (_item(line) for line in lines)


def _heading(title: str) -> Iterator[RenderableType]:
    yield Text("")
    yield Text(title, style="bold underline")


def _item(text: str) -> RenderableType:
    return Padding(Text(f"- {text}"), (0, 0, 0, 2))
