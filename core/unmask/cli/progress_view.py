"""What the terminal shows while something runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

__all__ = ["ProgressView", "progress_view"]


class ProgressView:
    """Training and evaluation as progress bars; satisfies `unmask.evaluation.progress.Progress`.

    Where the output is no terminal, warnings are printed and nothing else.
    """

    def __init__(self, bars: Progress, console: Console) -> None:
        self._bars = bars
        self._console = console
        self._training: dict[str, TaskID] = {}
        self._cells: TaskID | None = None
        self._steps: TaskID | None = None

    def train(self, what: str, done: int, total: int) -> None:
        """Training made progress; its bar goes when it is done."""
        if what not in self._training:
            self._training[what] = self._bars.add_task(what, total=total)
        self._bars.update(self._training[what], completed=done, total=total)
        if done >= total:
            self._bars.remove_task(self._training.pop(what))

    def begin(self, cells: int) -> None:
        """The evaluation starts."""
        self._cells = self._bars.add_task("cells", total=cells)
        self._steps = self._bars.add_task("", total=None, visible=False)

    def cell(self, model: str, attack: str, epsilon: float) -> None:
        """A cell starts."""
        if self._steps is not None:
            self._bars.reset(
                self._steps, total=None, description=f"{attack} on {model}, ε {epsilon:.4g}", visible=True
            )

    def step(self, done: int, total: int, standing: int) -> None:
        """An attack made a step."""
        if self._steps is not None:
            self._bars.update(self._steps, completed=done, total=total)

    def finished(self, *, reused: bool) -> None:
        """A cell ended."""
        if self._cells is not None:
            self._bars.advance(self._cells)

    def warn(self, message: str) -> None:
        """Printed above the bars."""
        self._console.print(f"warning: {message}", style="yellow", markup=False, highlight=False)


@contextmanager
def progress_view() -> Iterator[ProgressView]:
    """Bars on the error stream while the block runs, gone afterwards."""
    console = Console(stderr=True)
    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bars:
        yield ProgressView(bars, console)
