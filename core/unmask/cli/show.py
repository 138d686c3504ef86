"""``unmask show``: one component and its options."""

from __future__ import annotations

from typing import Annotated

import typer

from unmask.cli import console
from unmask.cli.completion import complete_kind, complete_name

__all__ = ["show"]


def show(
    kind: Annotated[str, typer.Argument(help="Such as attack, model or data.", autocompletion=complete_kind)],
    name: Annotated[str, typer.Argument(help="As `unmask list` writes it.", autocompletion=complete_name)],
) -> None:
    """Show one component: what it is, where it comes from, and its options with their defaults."""
    from rich.markup import escape
    from rich.table import Table

    from unmask.plugins.catalog import catalog, kind_named, singular
    from unmask.plugins.describing import facts_of, options_of

    kind = kind_named(kind)
    provided = catalog().find(kind, name)
    options = options_of(kind, provided)
    out = console()
    name = catalog().spelt(kind, provided)
    out.print(f"[bold]{escape(name)}[/bold] ({singular(kind)}): {escape(provided.entry.summary)}")
    facts = Table(box=None, show_header=False, padding=(0, 3, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    for label, value in facts_of(provided):
        facts.add_row(label, escape(value))
    out.print(facts)
    out.print()
    if not options:
        out.print("It takes no options.")
        return
    table = Table(title="options", title_justify="left", box=None, padding=(0, 3, 0, 0))
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("type")
    table.add_column("default")
    table.add_column("meaning", ratio=1)
    for option in options:
        table.add_row(*map(escape, (option.name, option.type, option.default, option.meaning)))
    out.print(table)
