"""``unmask train``: what a manifest's recipes say, once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli import console
from unmask.cli.completion import complete_manifest

__all__ = ["train"]


def train(
    manifest: Annotated[Path, typer.Argument(help="A manifest (TOML).", autocompletion=complete_manifest)],
    device: Annotated[
        str | None, typer.Option(help="Where to train, such as cpu or cuda:0; the manifest's own by default.")
    ] = None,
    checkpoint_every: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds between two checkpoints, from which an interrupted training goes on."
        ),
    ] = 30.0,
) -> None:
    """Train what the manifest's recipes say and what is not kept yet; `unmask run` does it by itself.

    Ctrl-C once finishes the update and keeps a checkpoint; the same command goes on from there, with the same
    result. Each training writes its measurements to a file of JSON lines, whose path is printed.
    """
    from rich.markup import escape

    from unmask import interrupt
    from unmask.cache import Cache
    from unmask.cli.progress_view import progress_view
    from unmask.manifest.checking import check_manifest
    from unmask.manifest.reading import read_manifest
    from unmask.models.building import build_models
    from unmask.models.device import choose_device
    from unmask.models.trained import TrainingView

    said = read_manifest(manifest)
    check_manifest(said)
    where = choose_device(device or said.device)
    out = console()

    def tell() -> str:
        return "\ninterrupted: finishing this update and keeping a checkpoint; Ctrl-C again stops now\n"

    with interrupt.orderly(tell), progress_view() as view:
        built = build_models(
            said, device=where, view=TrainingView(view.train, view.say, interval=checkpoint_every)
        )
    for name, file in built.trained.items():
        out.print(
            f"trained [bold]{escape(name)}[/bold]: kept in {escape(file)}, "
            f"measurements in {escape(str(Path(file).with_suffix('.jsonl')))}",
            soft_wrap=True,
        )
    if not built.trained:
        out.print(
            f"nothing to train: all weights are given, or kept in {escape(str(Cache().folder))}",
            soft_wrap=True,
        )
