"""``unmask compare``: what changed between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli.completion import complete_result

__all__ = ["compare"]


def compare(
    first: Annotated[
        Path,
        typer.Argument(help="A result file, or the run folder it lies in.", autocompletion=complete_result),
    ],
    second: Annotated[
        Path, typer.Argument(help="Another, of the same samples.", autocompletion=complete_result)
    ],
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.99,
) -> None:
    """Compare two runs on the samples, models and attacks they share, paired per sample."""
    from unmask.errors import UserError

    if not 0 < level < 1:
        raise UserError(f"must lie between 0 and 1 (such as 0.99), not {level}.", where="--level")
    from unmask.cli import console
    from unmask.cli.files import opened_result
    from unmask.reports.comparison import comparison_report

    with opened_result(first) as one, opened_result(second) as other:
        report = comparison_report(one, other, (str(first), str(second)), level)
    console().print(report)
