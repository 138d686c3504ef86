"""A table that never cuts a number: where the terminal is too narrow, its columns go on below."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table

__all__ = ["FittingTable"]


class FittingTable:
    """One table, or as many below each other as the width asks for.

    Args:
        columns: Names of the columns that may be spread over several tables.
        build: Makes a table of some of them; what names the rows is in each. Told whether it is the first.
    """

    def __init__(self, columns: Sequence[str], build: Callable[[Sequence[str], bool], Table]) -> None:
        self._columns = list(columns)
        self._build = build

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._tables(console, options)

    def _tables(self, console: Console, options: ConsoleOptions) -> list[Table]:
        for count in range(1, max(len(self._columns), 1) + 1):
            share = -(-len(self._columns) // count)
            groups = [self._columns[i : i + share] for i in range(0, len(self._columns), share)]
            tables = [self._build(group, i == 0) for i, group in enumerate(groups)]
            wide = options.update(max_width=10_000)
            if all(Measurement.get(console, wide, t).maximum <= options.max_width for t in tables):
                break
        return tables
