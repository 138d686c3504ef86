"""``unmask new-plugin``: a project to write an attack in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["new_plugin"]


def new_plugin(
    name: Annotated[
        str, typer.Argument(help="What the distribution and its attack are called, such as my-attack.")
    ],
    directory: Annotated[
        Path, typer.Option("--directory", "-d", help="The folder to put the project's folder in.")
    ] = Path(),
) -> None:
    """Make a plugin project with one attack, tests and continuous integration, ready to be installed."""
    import shlex

    from unmask.scaffolding.plugin import make_plugin

    folder = make_plugin(name, directory)
    typer.echo(f"made {folder}/ with the attack '{folder.name}'\n")
    typer.echo("Next:")
    for line in (
        f"cd {shlex.quote(str(folder))}",
        'pip install -e ".[test]"',
        "pytest",
        "unmask run manifest.toml",
    ):
        typer.echo(f"  {line}")
