"""Progress that is seen: in a terminal as bars, in a notebook as one line that changes."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from unmask.evaluation.progress import Progress, Silent

__all__ = ["NotebookProgress", "in_notebook", "shown"]


@contextmanager
def shown(progress: Progress | bool | None) -> Iterator[Progress]:
    """What is told of an evaluation while the block runs.

    Args:
        progress: True: bars, in whatever the caller looks at; False or None: nothing; else itself.
    """
    if progress is None or progress is False:
        yield Silent()
    elif progress is not True:
        yield progress
    elif in_notebook():
        view = NotebookProgress()
        try:
            yield view
        finally:
            view.close()
    else:
        from unmask.cli.progress_view import progress_view

        with progress_view() as bars:
            yield bars


def in_notebook() -> bool:
    """Whether the caller is a Jupyter kernel, which shows HTML."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class NotebookProgress:
    """Cells done as a bar in the output of a notebook's cell; warnings stay below it.

    Attributes:
        text: The HTML shown last.
    """

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html: Any = HTML
        self._display: Any = display
        self._handle: Any = None
        self._cells = self._done = self._broken = self._forwards = 0
        self._now = ""
        self._warnings: list[str] = []
        self.text = ""

    def begin(self, cells: int) -> None:
        """The evaluation starts."""
        self._cells = cells
        self._show()

    def cell(self, model: str, attack: str, epsilon: float) -> None:
        """A cell starts."""
        self._now = f"{attack} on {model}, ε {epsilon:.4g}"
        self._show()

    def step(self, done: int, total: int, standing: int) -> None:
        """Too often for a page to be redrawn."""

    def finished(self, *, reused: bool, broken: int = 0, forwards: int = 0) -> None:
        """A cell ended."""
        self._done += 1
        self._broken += broken
        self._forwards += forwards
        self._show()

    def warn(self, message: str) -> None:
        """Kept and shown."""
        self._warnings.append(message)
        self._show()

    def close(self) -> None:
        """The evaluation ended, or was ended."""
        self._now = ""
        self._show()

    def _show(self) -> None:
        facts = f"{self._done} of {self._cells} cells, {self._broken:,} samples broken"
        facts += f", {self._forwards:,} forwards"
        words = f"{facts}; {self._now}" if self._now else facts
        self.text = f'<progress value="{self._done}" max="{self._cells}"></progress> {html.escape(words)}'
        for warning in self._warnings:
            self.text += f"<br>warning: {html.escape(warning)}"
        shown_as = self._html(self.text)
        if self._handle is None:
            self._handle = self._display(shown_as, display_id=True)
        else:
            self._handle.update(shown_as)
