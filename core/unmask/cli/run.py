"""``unmask run``: a manifest in, an honest answer out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["run"]


def run(
    manifest: Annotated[Path, typer.Argument(help="A manifest (TOML), or a result file to run again.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The run folder. [default: runs/<name>]")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where to compute, such as cpu or cuda. [default: the best there is]")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start anew; an earlier run in the folder is moved aside.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 4 when some model's robustness is masked.")
    ] = False,
) -> None:
    """Run or continue an evaluation, print the verdict and the table, and write results.nc.

    Interrupted, it goes on where it stopped when the same command is given again.
    """
    from rich.console import Console

    from unmask.cli.progress_view import progress_view
    from unmask.manifest.reading import read_manifest
    from unmask.reports.text import text_report
    from unmask.running import run_command, run_manifest

    read = read_manifest(manifest)
    folder = output if output is not None else Path("runs") / read.name
    try:
        with progress_view() as view:
            results = run_manifest(
                read, folder, device=device, fresh=fresh, progress=view, training=view.train
            )
    except KeyboardInterrupt:
        typer.echo(
            f"interrupted; what is finished is kept in {folder}. Go on with: {run_command(manifest, output)}",
            err=True,
        )
        raise typer.Exit(130) from None
    Console().print(text_report(results))
    typer.echo(f"\nwritten: {folder / 'results.nc'}, {folder / 'report.txt'}")
    if bool((results.status == _failed()).any()):
        raise typer.Exit(3)
    if strict and any(verdict.label == "masked" for verdict in results.unmask.verdict().values()):
        raise typer.Exit(4)


def _failed() -> int:
    from unmask.dimensions import Status

    return int(Status.FAILED)
