"""What the terminal shows while something runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from unmask.cli.progress_log import Log, LogView
from unmask.crashes import news

__all__ = ["ProgressView", "View", "progress_view"]


class ProgressView:
    """Training and evaluation as progress bars; satisfies `unmask.evaluation.progress.Progress`.

    Where the output is no terminal, sentences and warnings are printed and nothing else.
    """

    def __init__(self, bars: Progress, console: Console) -> None:
        self._bars = bars
        self._console = console
        self._training: dict[str, TaskID] = {}
        self._cells: TaskID | None = None
        self._steps: TaskID | None = None
        self._started = 0.0
        self._broken = self._forwards = 0

    def train(self, what: str, done: int, total: int) -> None:
        """Training made progress; its bar goes when it is done."""
        if what not in self._training:
            self._training[what] = self._bars.add_task(what, total=total, facts="")
        self._bars.update(self._training[what], completed=done, total=total)
        if done >= total:
            self._bars.remove_task(self._training.pop(what))

    def begin(self, cells: int) -> None:
        """The evaluation starts."""
        self._started = time.monotonic()
        self._cells = self._bars.add_task("cells", total=cells, facts="")
        self._steps = self._bars.add_task("", total=None, visible=False, facts="")

    def cell(self, model: str, attack: str, epsilon: float) -> None:
        """A cell starts."""
        if self._steps is not None:
            self._bars.reset(
                self._steps, total=None, description=f"{attack} on {model}, ε {epsilon:.4g}", visible=True
            )
            self._bars.update(self._steps, facts="")

    def step(self, done: int, total: int, standing: int) -> None:
        """An attack made a step."""
        if self._steps is not None:
            self._bars.update(self._steps, completed=done, total=total, facts=f"{standing} standing")

    def finished(self, *, reused: bool, broken: int = 0, forwards: int = 0) -> None:
        """A cell ended."""
        self._broken += broken
        self._forwards += forwards
        if self._cells is not None:
            rate = self._forwards / max(time.monotonic() - self._started, 1e-3)
            self._bars.update(
                self._cells, advance=1, facts=f"{self._broken:,} samples broken, {rate:,.0f} forwards/s"
            )

    def say(self, message: str) -> None:
        """Printed above the bars."""
        self._console.print(message, markup=False, highlight=False, soft_wrap=True)

    def warn(self, message: str) -> None:
        """Printed above the bars, once."""
        if news(message):
            words = f"warning: {message}"
            self._console.print(words, style="yellow", markup=False, highlight=False, soft_wrap=True)

    def error(self, message: str) -> None:
        """Left to the command line, which prints errors."""


View = ProgressView | LogView


@contextmanager
def progress_view(log: Log | None = None) -> Iterator[View]:
    """What is shown on the error stream while the block runs.

    Args:
        log: One line for each event, as ``text`` or ``json``; None: bars that are gone afterwards, and on
            anything but a terminal nothing but warnings.
    """
    if log is not None:
        yield LogView(log, sys.stderr)
        return
    console = Console(stderr=True)
    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[facts]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bars:
        yield ProgressView(bars, console)
