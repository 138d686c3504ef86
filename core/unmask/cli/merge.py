"""``unmask merge``: partial results put together safely."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from unmask.cli import counted
from unmask.cli.completion import complete_result

__all__ = ["merge"]


def merge(
    results: Annotated[
        list[Path], typer.Argument(help="Result files of one evaluation.", autocompletion=complete_result)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
) -> None:
    """Merge partial results: other models, attacks, radii or samples of the same evaluation.

    Refused where parts disagree, and where the merged result would have holes.
    """
    from unmask.cli.files import opened_result
    from unmask.results import merging
    from unmask.results.storage import save

    with ExitStack() as stack:
        parts = [stack.enter_context(opened_result(path)) for path in results]
        merged = merging.merge(parts, [str(path) for path in results])
    place = save(merged, output)
    sizes = ", ".join(counted(merged.sizes[d], d) for d in ("model", "attack", "epsilon", "sample"))
    typer.echo(f"written: {place} ({sizes})")
