"""The report for the terminal: the verdict first, then the numbers, then everything needed to judge them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import xarray as xr
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE
from unmask.reports.tables import Rate, problems, rates
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
    attributes = results.attrs
    low, high = json.loads(attributes.get("bounds", "[0, 1]"))
    radii = ", ".join(epsilon_text(e) for e in results[EPSILON].values)
    return Text(
        f"Threat model: norm {attributes.get('norm')}, epsilon {radii}, pixels in [{low:g}, {high:g}]. "
        f"{results.sizes[SAMPLE]} samples of {attributes.get('data') or 'the given data'}, seed "
        f"{attributes.get('seed')}, {attributes.get('precision')} on {attributes.get('device')}. "
        f"Intervals: Clopper-Pearson, {100 * level:g} %."
    )


def _tables(results: xr.Dataset, level: float) -> Iterator[RenderableType]:
    clean, each = rates(results, "clean_accuracy", level), rates(results, "robust_accuracy", level)
    worst = rates(results, "worst_case", level)
    upper_bound = results.unmask.worst_case()["upper_bound"]
    attacks = [str(a) for a in results[ATTACK].values]
    for epsilon in results[EPSILON].values.tolist():
        if epsilon <= 0:
            continue
        table = Table(
            title=Text(f"Accuracy in %, {results.attrs.get('norm')} epsilon {epsilon_text(epsilon)}"),
            title_justify="left",
        )
        table.add_column("model")
        for column in ("clean", *attacks, "worst case"):
            table.add_column(Text(column), justify="right")
        bounded = False
        for model in map(str, results[MODEL].values):
            bound = bool(upper_bound.sel({MODEL: model, EPSILON: epsilon}))
            bounded |= bound
            table.add_row(
                Text(model),
                _cell(clean[(model,)]),
                *(_cell(each[(model, attack, epsilon)]) for attack in attacks),
                _cell(worst[(model, epsilon)], "<= " if bound else ""),
            )
        yield Text("")
        yield table
        if bounded:
            yield Text("<= : an attack failed or is unfinished, so the worst case may be lower.")


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


def _settings(results: xr.Dataset) -> Iterator[RenderableType]:
    yield from _heading("Attacks")
    for i, name in enumerate(map(str, results[ATTACK].values)):
        here = results.isel({ATTACK: i})
        settings = json.loads(str(here["settings"].item()) or "{}")
        listed = ", ".join(f"{key} = {_value(value)}" for key, value in settings.items())
        gradient = str(here["gradient"].item())
        knows = str(here["access"].item()) + (f" ({gradient})" if gradient else "")
        yield _item(f"{name}: {here['use'].item()}, knows {knows}{'; ' + listed if listed else ''}")


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} = {_value(v)}" for k, v in value.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value)


def _notes(results: xr.Dataset) -> Iterator[RenderableType]:
    notes = []
    for kind, how in (
        ("enumerated", "exact over its members"),
        ("drawn", "estimated from {draws} fresh draws for each example"),
    ):
        for model in results[MODEL].values[results["randomness"].values == kind]:
            draws = int(results["draws"].sel({MODEL: model}))
            notes.append(
                f"{model} answers at random; its accuracy is the expected one, {how.format(draws=draws)}."
            )
    notes += json.loads(results.attrs.get("warnings", "[]"))
    if notes:
        yield from _heading("Notes and warnings")
        yield from (_item(note) for note in notes)


def _problems(results: xr.Dataset) -> Iterator[RenderableType]:
    """Failed cells one by one; those that do not apply once for each model and attack."""
    lines: dict[str, list[str]] = {}
    for problem in problems(results):
        what = f"{problem.failed} of {problem.samples} samples failed" if problem.failed else "not run"
        line = f"{problem.model}, {problem.attack}: {what}: {problem.message or 'no reason was given'}"
        lines.setdefault(line, []).append(epsilon_text(problem.epsilon))
    if lines:
        yield from _heading("Cells without a rate")
        for line, radii in lines.items():
            yield _item(f"{line} (epsilon {', '.join(radii)})")


def _heading(title: str) -> Iterator[RenderableType]:
    yield Text("")
    yield Text(title, style="bold underline")


def _item(text: str) -> RenderableType:
    return Padding(Text(f"- {text}"), (0, 0, 0, 2))
