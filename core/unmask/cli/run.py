"""``unmask run``: a manifest in, an honest answer out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from unmask.cli import printing
from unmask.cli.completion import complete_manifest

if TYPE_CHECKING:
    import xarray as xr

    from unmask.cli.progress_log import Log

__all__ = ["run"]


def run(
    manifest: Annotated[
        Path,
        typer.Argument(
            help="A manifest (TOML), or a result file to run again.", autocompletion=complete_manifest
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The run folder. [default: runs/<name>]")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where to compute, such as cpu or cuda. [default: the best there is]")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="serial (this process) or dask (worker processes). [default: serial]"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Start this many worker processes here; implies --engine dask.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a running Dask scheduler to use instead; implies --engine dask."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start anew; an earlier run in the folder is moved aside.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 4 when some model's robustness is masked.")
    ] = False,
    log: Annotated[
        str | None,
        typer.Option(
            help="text or json: a line for each event on the error stream. "
            "[default: a live view on a terminal, else warnings alone]"
        ),
    ] = None,
) -> None:
    """Run or continue an evaluation, print the verdict and the table, and write results.nc.

    Interrupted, it goes on where it stopped when the same command is given again: Ctrl-C once ends it after
    the batch, twice at once.
    """
    from rich.console import Console

    from unmask.cli.progress_log import LOGS, LogView, as_line
    from unmask.cli.progress_view import progress_view
    from unmask.errors import UnsavedError, UserError, suggestion
    from unmask.interrupt import orderly
    from unmask.manifest.reading import read_manifest
    from unmask.models.trained import TrainingView
    from unmask.reports.text import text_report
    from unmask.running import run_command, run_manifest

    if log is not None and log not in LOGS:
        raise UserError(f"'{log}' is unknown. {suggestion(log, LOGS)}", where="--log")
    kind = cast("Log | None", log)

    def stopping() -> str:
        batch = workers is None and scheduler is None and engine != "dask"
        what = "this batch" if batch else "the cells that are being computed"
        words = f"stopping after {what}; press Ctrl-C again to stop now"
        return as_line(kind, "stopping", words, {"message": words}) if kind else f"\n{words}\n"

    try:
        with progress_view(kind) as view, orderly(stopping):
            read = read_manifest(manifest)
            folder = output if output is not None else Path("runs") / read.name
            results = run_manifest(
                read,
                folder,
                device=device,
                fresh=fresh,
                engine=engine,
                workers=workers,
                scheduler=scheduler,
                progress=view,
                training=TrainingView(view.train, view.say),
            )
    except KeyboardInterrupt:
        where = output if output is not None else Path("runs")
        again = run_command(
            manifest, output, device=device, engine=engine, workers=workers, scheduler=scheduler, log=log
        )
        words = f"interrupted; what is finished is kept in {where}. Go on with: {again}"
        if isinstance(view, LogView):
            view.interrupted(words)
        else:
            typer.echo(words, err=True)
        raise typer.Exit(130) from None
    except UnsavedError as error:
        Console().print(text_report(cast("xr.Dataset", error.results)))
        if log == "json":
            view.error(str(error))
        else:
            typer.echo(f"\n{error}", err=True)
        raise typer.Exit(3) from None
    except UserError as error:
        if log != "json":
            raise
        view.error(str(error))
        raise typer.Exit(2) from None
    with printing(str(folder / "report.txt")):
        Console().print(text_report(results))
        typer.echo(f"\nwritten: {folder / 'results.nc'}, {folder / 'report.html'}")
    if bool((results.status == _failed()).any()):
        raise typer.Exit(3)
    if strict and any(verdict.label == "masked" for verdict in results.unmask.verdict().values()):
        raise typer.Exit(4)


def _failed() -> int:
    from unmask.dimensions import Status

    return int(Status.FAILED)
