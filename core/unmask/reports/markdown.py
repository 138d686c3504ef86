"""The report as Markdown, for pull requests and wikis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import xarray as xr

from unmask.reports.content import Cell, NumberTable, accuracy_tables
from unmask.reports.further import further_tables
from unmask.reports.head import attack_settings, notes_and_warnings, problem_lines, provenance, threat_model
from unmask.reports.wording import HEADINGS, indicator_text, verdict_headline

__all__ = ["render_markdown"]

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>#|~"})


def render_markdown(results: xr.Dataset, level: float = 0.99) -> str:
    """The whole report as GitHub-flavoured Markdown.

    Args:
        results: A result.
        level: Confidence level of the Clopper-Pearson intervals.

    Raises:
        UserError: A level outside (0, 1).
    """
    return "\n".join(_lines(results, level)) + "\n"


def _lines(results: xr.Dataset, level: float) -> Iterator[str]:
    verdicts = results.unmask.verdict()
    yield f"# {_text(results.attrs.get('title') or 'Evaluation')}"
    yield ""
    for model, verdict in verdicts.items():
        yield (
            f"- **{_text(model)}: {HEADINGS[verdict.label]}** - "
            f"{_text(verdict_headline(results, model, verdict))}"
        )
    yield from _section("Threat model", (f"{k}: {v}" for k, v in threat_model(results, level).items()))
    yield from _section("Attacks", (f"{a.name}: {a.sentence}" for a in attack_settings(results)))
    for _, table in accuracy_tables(results, level):
        yield from _table(table)
    yield ""
    yield "## Why"
    for model, verdict in verdicts.items():
        yield ""
        yield f"**{_text(model)}**"
        yield ""
        yield from (f"- {_text(f'{indicator_text(i)}. {i.advice}')}" for i in verdict.fired)
        quiet = [i for i in verdict.indicators if not i.fired and i.evidence]
        seen = "; ".join(indicator_text(i) for i in quiet if i.samples)
        if seen:
            yield f"- {_text(f'looked for and not seen: {seen}.')}"
        yield from (f"- {_text(f'{indicator_text(i)}. {i.advice}')}" for i in quiet if not i.samples)
        yield f"- {_text(verdict.advice)}"
    for table in further_tables(results, level):
        yield from _table(table)
    yield from _section("Notes and warnings", notes_and_warnings(results))
    yield from _section("Cells without a rate", problem_lines(results))
    yield from _section("Provenance", (f"{k}: {v}" for k, v in provenance(results).items()))


def _section(title: str, items: Iterable[str]) -> Iterator[str]:
    listed = list(items)
    if listed:
        yield from ("", f"## {title}", "")
        yield from (f"- {_text(item)}" for item in listed)


def _table(table: NumberTable) -> Iterator[str]:
    yield from ("", f"## {_text(table.title)}", "")
    yield _row(_text(column) for column in table.columns)
    yield _row("---" if i < table.names else "---:" for i in range(len(table.columns)))
    yield from (_row(_cell(cell) for cell in row) for row in table.rows)
    if table.caption:
        yield from ("", _text(table.caption))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    text = f"**{_text(cell.text)}**" if cell.best else _text(cell.text)
    return f"{text} ({_text(cell.note)})" if cell.note else text


def _text(text: str) -> str:
    return " ".join(str(text).split()).translate(_SPECIAL)
