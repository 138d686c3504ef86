"""``unmask import``: results of other tools as result files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli import counted

__all__ = ["import_file"]


def import_file(
    file: Annotated[Path, typer.Argument(help="A state file of AutoAttack, or a JSON card of RobustBench.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The result file to write.")],
    norm: Annotated[str | None, typer.Option(help="The norm, where the file does not tell it.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="The radius, such as 8/255, where the file does not tell it.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="What the model is called; the file's name if left out.")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="How many images there were, where the file does not tell it.")
    ] = None,
) -> None:
    """Turn what another tool wrote into a result file, as far as it tells; nothing is made up."""
    from unmask.cli.files import refuse_replacing
    from unmask.results.importing import Told, import_results
    from unmask.results.storage import save

    refuse_replacing(file, output)
    results = import_results(file, Told(norm=norm, epsilon=epsilon, model=model, samples=samples))
    place = save(results, output)
    samples_there = counted(results.sizes["sample"], "sample")
    typer.echo(f"written: {place} ({samples_there} of {results.attrs['imported_from']})")
