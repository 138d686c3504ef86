"""The accuracy tables as LaTeX, in the layout of a paper."""

from __future__ import annotations

from collections.abc import Iterator

import xarray as xr

from unmask.reports.content import Cell, accuracy_tables
from unmask.reports.head import attack_settings, notes_and_warnings, problem_lines, threat_model_sentence
from unmask.reports.wording import HEADINGS, epsilon_text

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


def render_latex(results: xr.Dataset, level: float = 0.99) -> str:
    r"""One booktabs table for each radius, to be ``\input`` into a paper.

    Rows are models, columns attacks; intervals stand small behind the number, the best of a column is bold,
    and the caption holds threat model, attack settings, verdicts and warnings.

    Args:
        results: A result.
        level: Confidence level of the Clopper-Pearson intervals.

    Raises:
        UserError: A level outside (0, 1).
    """
    head = [
        r"% Needs \usepackage{booktabs,graphicx} and \usepackage[T1]{fontenc}.",
        f"% {' '.join(str(results.attrs.get('title', '')).split())}, Unmask "
        f"{results.attrs.get('unmask_version', '')}, {results.attrs.get('created', '')}",
    ]
    return "\n".join([*head, *_tables(results, level)]) + "\n"


def _tables(results: xr.Dataset, level: float) -> Iterator[str]:
    caption = _caption(results, level)
    for epsilon, table in accuracy_tables(results, level):
        yield ""
        yield r"\begin{table}"
        yield r"  \centering"
        note = f" {_text(table.caption)}" if table.caption else ""
        yield f"  \\caption{{{_text(table.title)}. {caption}{note}}}"
        yield f"  \\label{{tab:unmask-{epsilon_text(epsilon).replace('/', '-')}}}"
        yield r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
        yield f"  \\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}"
        yield r"    \toprule"
        yield f"    {' & '.join(_text(column) for column in table.columns)} \\\\"
        yield r"    \midrule"
        for row in table.rows:
            yield f"    {' & '.join(_cell(cell) for cell in row)} \\\\"
        yield r"    \bottomrule"
        yield r"  \end{tabular}}"
        yield r"\end{table}"


def _caption(results: xr.Dataset, level: float) -> str:
    verdicts = "; ".join(
        f"{model}: {HEADINGS[verdict.label].lower()}" for model, verdict in results.unmask.verdict().items()
    )
    attacks = ". ".join(f"{attack.name}: {attack.sentence}" for attack in attack_settings(results))
    parts = [
        f"Threat model: {threat_model_sentence(results, level)}",
        f"Attacks: {attacks}.",
        f"Verdicts: {verdicts}.",
        *notes_and_warnings(results),
        *(f"{line}." for line in problem_lines(results)),
    ]
    return _text(" ".join(parts))


def _cell(cell: Cell) -> str:
    number = f"\\textbf{{{_text(cell.text)}}}" if cell.best else _text(cell.text)
    return f"{number} {{\\scriptsize [{_text(cell.note.replace('-', ', '))}]}}" if cell.note else number


def _text(text: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in " ".join(str(text).split()))
