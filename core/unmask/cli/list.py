"""``unmask list``: what is installed."""

from __future__ import annotations

from typing import Annotated

import typer

from unmask.cli import console
from unmask.cli.completion import complete_kind

__all__ = ["list_entries"]


def list_entries(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="Such as attacks, models or data; everything when left out.", autocompletion=complete_kind
        ),
    ] = None,
) -> None:
    """List the installed components by kind: name, what it is, and who provides it."""
    from rich.markup import escape
    from rich.table import Table

    from unmask.plugins.catalog import KINDS, catalog, kind_named

    kinds = KINDS if kind is None else (kind_named(kind),)
    installed = catalog()
    out = console()
    for each in kinds:
        table = Table(title=each, title_justify="left", box=None, padding=(0, 3, 0, 0))
        table.add_column("name", no_wrap=True, style="bold")
        table.add_column("summary", ratio=1)
        table.add_column("provider", no_wrap=True, style="dim")
        for provided in installed.entries(each):
            name = installed.spelt(each, provided)
            table.add_row(escape(name), escape(provided.entry.summary), escape(provided.provider))
        absent = []
        for library, offered in installed.of_libraries(each).items():
            if library.installed:
                for provided in offered:
                    table.add_row(
                        escape(provided.qualified_name), escape(provided.entry.summary), escape(str(library))
                    )
            else:
                absent.append(
                    f"{library.name}: {len(offered)} {each} more, once it is installed: {library.install}"
                )
        if table.row_count:
            out.print(table)
        else:
            out.print(f"{each}\nnone installed")
        for line in absent:
            out.print(escape(line), style="dim")
        if each != kinds[-1]:
            out.print()
    for failure in installed.failures:
        console(stderr=True).print(escape(str(failure)), style="yellow")
