"""``unmask plugins``: who provides what, and what failed to load."""

from __future__ import annotations

from unmask.cli import console

__all__ = ["plugins"]


def plugins() -> None:
    """List the installed plugins: distribution, version, what each offers, and what failed and why."""
    from rich.markup import escape
    from rich.table import Table

    from unmask.plugins.catalog import catalog, singular

    installed = catalog()
    out = console()
    table = Table(box=None, padding=(0, 3, 0, 0))
    for heading in ("plugin", "version", "entry point"):
        table.add_column(heading, no_wrap=True)
    table.add_column("offers", ratio=1)
    for plugin in installed.plugins:
        counts = [
            f"{len(own)} {singular(kind) if len(own) == 1 else kind}"
            for kind, entries in plugin.offers.items()
            if (own := [entry for entry in entries if entry.library is None])
        ]
        if others := sum(entry.library is not None for e in plugin.offers.values() for entry in e):
            counts.append(f"{others} of other libraries")
        if plugin.kernels is not None:
            counts.append("kernels")
        offers = ", ".join(counts) or "nothing"
        table.add_row(*map(escape, (plugin.name, plugin.version, plugin.value, offers)))
    if table.row_count:
        out.print(table)
    else:
        out.print("No plugin works: not even Unmask's own. Reinstall unmask.")
    if installed.failures:
        out.print(f"\n{len(installed.failures)} failed to load:", style="yellow")
        for failure in installed.failures:
            out.print(
                f"  {escape(failure.name)} (version {escape(failure.version)}): {escape(failure.cause)}"
            )
