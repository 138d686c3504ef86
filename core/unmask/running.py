"""From a manifest to a result: what ``unmask run`` does, callable."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.crashes import surviving
from unmask.engines.choice import EngineChoice
from unmask.errors import UnsavedError, UserError
from unmask.evaluation.evaluate import RunContext, evaluate
from unmask.evaluation.expectation import check_expectations
from unmask.evaluation.progress import Progress
from unmask.manifest.checking import build_attacks, check_manifest
from unmask.manifest.data_section import build_data
from unmask.manifest.placing import placed_in
from unmask.manifest.spec import Manifest
from unmask.models.building import build_models
from unmask.models.device import choose_device
from unmask.models.trained import TrainingView
from unmask.results.atomic import write_atomically

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["run_command", "run_manifest"]


def run_command(manifest: Path, folder: Path | None, **options: object) -> str:
    """The command that goes on with a run.

    Args:
        manifest: As it was named.
        folder: The run folder, where it was named.
        options: Those that were given, by name; None: not given.
    """
    given = [
        part for name, value in options.items() if value is not None for part in (f"--{name}", str(value))
    ]
    return shlex.join(["unmask", "run", str(manifest), *(["-o", str(folder)] if folder else []), *given])


def run_manifest(
    manifest: Manifest,
    folder: Path,
    *,
    device: str | None = None,
    fresh: bool = False,
    engine: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
    training: TrainingView | None = None,
) -> xr.Dataset:
    """Train what is missing, evaluate, and leave results, reports and manifest in the run folder.

    Args:
        manifest: What to run.
        folder: The run folder; made, or continued.
        device: Where to compute; the manifest's, or the best there is, when None.
        fresh: Start the folder anew; what it held is moved aside.
        engine: Where the cells are computed, as for `evaluate`.
        workers: Worker processes to start, likewise.
        scheduler: Address of a running Dask scheduler, likewise.
        progress: Told what the evaluation does.
        training: Told how training goes.

    Raises:
        UserError: Wrong input, in words, before any attack work.
        UnsavedError: The run is done and cannot be written; it carries the result.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError("is a file; a run needs a folder. Choose another place with -o.", file=str(folder))
    # Whatever code of plugins makes of the working directory.
    folder = folder.absolute()
    chosen = EngineChoice.checked(engine, workers, scheduler)
    with surviving("the manifest was checked"):
        check_manifest(manifest)
    place = choose_device(device or manifest.device)
    data = build_data(manifest)
    built = build_models(manifest, device=place, view=training)
    with placed_in(manifest.file):
        check_expectations(
            built.expectations,
            data,
            seed=manifest.seed,
            batch_size=manifest.batch_size,
        )
    try:
        results = evaluate(
            built.models,
            data.images,
            data.labels,
            build_attacks(manifest),
            manifest.epsilons,
            norm=manifest.norm,
            bounds=manifest.bounds or data.bounds,
            seed=manifest.seed,
            batch_size=manifest.batch_size,
            device=place,
            precision=manifest.precision,
            protocol=manifest.protocol,
            prepare=manifest.prepare,
            out=folder,
            sample_ids=data.ids,
            keep_examples=manifest.keep_examples,
            metrics=manifest.metrics,
            quantize=manifest.quantize,
            diagnose=manifest.diagnose,
            trace=manifest.trace,
            max_queries=manifest.max_queries,
            timeout=manifest.timeout,
            fresh=fresh,
            engine=chosen.name,
            workers=chosen.workers,
            scheduler=chosen.scheduler,
            progress=progress,
            context=RunContext(
                title=manifest.name,
                manifest=manifest.text,
                data=data.name,
                descriptions=built.descriptions,
                folder=str(manifest.folder),
            ),
        )
    except UserError as error:
        raise error.located(file=error.file or manifest.file) from error
    from unmask.reports.page import render_html
    from unmask.reports.text import render_text

    try:
        with surviving("the reports were written"):
            write_atomically(folder / "manifest.toml", manifest.text)
            write_atomically(folder / "report.txt", render_text(results, console_width=120))
            write_atomically(folder / "report.html", render_html(results))
    except OSError as error:
        raise UnsavedError(
            f"the reports cannot be written here: {error}. The result is in results.nc; make room and "
            "run again.",
            file=str(folder),
            results=results,
        ) from error
    return results
