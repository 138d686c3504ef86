"""``unmask report``: any report from any result file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from unmask.cli.completion import complete_result

if TYPE_CHECKING:
    import xarray as xr

    from unmask.results.accessor import Method

__all__ = ["report"]

FORMATS = ("text", "markdown", "html", "latex", "json")
INTERVALS = ("clopper-pearson", "wilson", "t", "bootstrap")


def report(
    results: Annotated[
        Path,
        typer.Argument(
            help="A result file (results.nc), or the run folder it lies in.", autocompletion=complete_result
        ),
    ],
    format: Annotated[str, typer.Option("--format", "-f", help=f"One of: {', '.join(FORMATS)}.")] = "text",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file instead of the terminal.")
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.99,
    interval: Annotated[
        str | None,
        typer.Option(
            help=f"With latex: the intervals' method, one of {', '.join(INTERVALS)}; t is written as plus or "
            "minus, as published tables have it. [default: clopper-pearson]"
        ),
    ] = None,
) -> None:
    """Report on a result: the verdict, the accuracies with their intervals, and how they were found."""
    from unmask.errors import UserError, suggestion

    if format not in FORMATS:
        raise UserError(f"there is no format '{format}'. {suggestion(format, FORMATS)}", where="--format")
    if not 0 < level < 1:
        raise UserError(f"must lie between 0 and 1 (such as 0.99), not {level}.", where="--level")
    if interval is not None and format != "latex":
        raise UserError(
            f"goes with --format latex; the format {format} has Clopper-Pearson intervals.",
            where="--interval",
        )
    if interval is not None and interval not in INTERVALS:
        raise UserError(f"'{interval}' is unknown. {suggestion(interval, INTERVALS)}", where="--interval")

    from unmask.cli.files import opened_result, refuse_replacing, written

    if output is not None:
        refuse_replacing(results, output)
    with opened_result(results) as dataset:
        if format == "text" and output is None:
            from rich.console import Console

            from unmask.reports.text import text_report

            Console().print(text_report(dataset, level))
            return
        content = _rendered(dataset, format, level, cast("Method", interval or "clopper-pearson"))
    if output is None:
        typer.echo(content, nl=False)
        return
    with written(output, "report") as place:
        place.write_text(content, encoding="utf-8")
    typer.echo(f"written: {output}")


def _rendered(dataset: xr.Dataset, format: str, level: float, interval: Method) -> str:
    """The report as text; only what the format needs is imported."""
    if format == "json":
        from unmask.reports.structured import render_json

        return render_json(dataset, level)
    if format == "markdown":
        from unmask.reports.markdown import render_markdown

        return render_markdown(dataset, level)
    if format == "latex":
        from unmask.reports.latex import render_latex

        return render_latex(dataset, level, interval)
    if format == "html":
        from unmask.reports.page import render_html

        return render_html(dataset, level)
    from unmask.reports.text import render_text

    return render_text(dataset, level=level)
