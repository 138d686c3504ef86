"""The accuracy tables as LaTeX, in the layout of a paper."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import xarray as xr

from unmask.reports.content import Cell, accuracy_tables
from unmask.reports.head import attack_settings, notes_and_warnings, problem_lines, threat_model_sentence
from unmask.reports.wording import HEADINGS, epsilon_text
from unmask.results.accessor import Method

__all__ = ["render_latex"]

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "^": r"\textasciicircum{}",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "%": r"\%",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}


def render_latex(results: xr.Dataset, level: float = 0.99, interval: Method = "clopper-pearson") -> str:
    r"""One booktabs table for each radius, to be ``\input`` into a paper.

    Rows are models, columns attacks; the stages of a suite stand under its name. Intervals stand small behind
    the number, as plus or minus half of their width where they are symmetric by construction; the best of a
    column is bold, and the caption holds threat model, attack settings, verdicts and warnings.

    Args:
        results: A result.
        level: Confidence level of the intervals.
        interval: Their method, as for the accessor's `interval`.

    Raises:
        UserError: A level outside (0, 1), or an unknown method.
    """
    head = [
        r"% Needs \usepackage{booktabs,graphicx} and \usepackage[T1]{fontenc}.",
        f"% {' '.join(str(results.attrs.get('title', '')).split())}, Unmask "
        f"{results.attrs.get('unmask_version', '')}, {results.attrs.get('created', '')}",
    ]
    return "\n".join([*head, *_tables(results, level, interval)]) + "\n"


def _tables(results: xr.Dataset, level: float, interval: Method) -> Iterator[str]:
    tables = list(accuracy_tables(results, level, interval))
    caption = _caption(results, level, interval)
    for epsilon, table in tables:
        yield ""
        yield r"\begin{table}"
        yield r"  \centering"
        note = f" {_text(table.caption)}" if table.caption else ""
        yield f"  \\caption{{{_text(table.title)}. {caption}{note}}}"
        yield f"  \\label{{tab:unmask-{epsilon_text(epsilon).replace('/', '-')}}}"
        yield r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
        yield f"  \\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}"
        yield r"    \toprule"
        yield from _headings(table.columns)
        yield r"    \midrule"
        for row in table.rows:
            yield f"    {' & '.join(_cell(cell) for cell in row)} \\\\"
        yield r"    \bottomrule"
        yield r"  \end{tabular}}"
        yield r"\end{table}"


def _headings(columns: tuple[str, ...]) -> Iterator[str]:
    """One line; two where a suite has stages, the suite's name over them."""
    suites = [column.partition("/")[0] if "/" in column else "" for column in columns]
    if any(suites):
        above, rules, place = [], [], 1
        for suite, group in groupby(suites):
            width = len(list(group))
            if suite:
                above.append(f"\\multicolumn{{{width}}}{{c}}{{{_text(suite)}, after}}")
                rules.append(f"\\cmidrule(lr){{{place}-{place + width - 1}}}")
            else:
                above += [""] * width
            place += width
        yield f"    {' & '.join(above)} \\\\"
        yield f"    {' '.join(rules)}"
    below = (c.partition("/")[2] if suite else c for c, suite in zip(columns, suites, strict=True))
    yield f"    {' & '.join(map(_text, below))} \\\\"


def _caption(results: xr.Dataset, level: float, interval: Method) -> str:
    verdicts = "; ".join(
        f"{model}: {HEADINGS[verdict.label].lower()}" for model, verdict in results.unmask.verdict().items()
    )
    attacks = ". ".join(f"{attack.name}: {attack.sentence}" for attack in attack_settings(results))
    parts = [
        f"Threat model: {threat_model_sentence(results, level, interval)}",
        f"Attacks: {attacks}.",
        f"Verdicts: {verdicts}.",
        *notes_and_warnings(results),
        *(f"{line}." for line in problem_lines(results)),
    ]
    return _text(" ".join(parts))


def _cell(cell: Cell) -> str:
    number = f"\\textbf{{{_text(cell.text)}}}" if cell.best else _text(cell.text)
    if not cell.note:
        return number
    if cell.note.startswith("\u00b1"):
        return f"{number} {{\\scriptsize \\ensuremath{{\\pm}}{_text(cell.note[1:])}}}"
    return f"{number} {{\\scriptsize [{_text(cell.note.replace('-', ', '))}]}}"


def _text(text: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in " ".join(str(text).split()))
