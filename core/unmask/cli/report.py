"""``unmask report``: any report from any result file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]

FORMATS = ("text", "json")


def report(
    results: Annotated[
        Path, typer.Argument(help="A result file (results.nc), or the run folder it lies in.")
    ],
    format: Annotated[str, typer.Option("--format", "-f", help=f"One of: {', '.join(FORMATS)}.")] = "text",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file instead of the terminal.")
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.99,
) -> None:
    """Report on a result: the verdict, the accuracies with their intervals, and how they were found."""
    from unmask.errors import UserError, suggestion

    if format not in FORMATS:
        raise UserError(f"there is no format '{format}'. {suggestion(format, FORMATS)}", where="--format")
    if not 0 < level < 1:
        raise UserError(f"must lie between 0 and 1 (such as 0.99), not {level}.", where="--level")

    from unmask.results.storage import load

    inside = results / "results.nc"
    dataset = load(inside if inside.is_file() else results)
    if format == "json":
        from unmask.reports.structured import render_json

        content = render_json(dataset, level)
    elif output is None:
        from rich.console import Console

        from unmask.reports.text import text_report

        Console().print(text_report(dataset, level))
        return
    else:
        from unmask.reports.text import render_text

        content = render_text(dataset, level=level)
    if output is None:
        typer.echo(content, nl=False)
        return

    from unmask.results.atomic import write_atomically

    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        if output.is_dir():
            raise UserError(
                "is a folder; name a file to write the report to.", where="--output", file=str(output)
            )
        write_atomically(output, content)
    except OSError as error:
        raise UserError(
            f"the report cannot be written here: {error}. Choose another place.",
            where="--output",
            file=str(output),
        ) from error
