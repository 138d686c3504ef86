"""What a training measured on its way: JSON lines, for people and programs to read along."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from unmask.errors import UserError
from unmask.results.atomic import write_atomically

__all__ = ["TrainingLog"]


class TrainingLog:
    """A file with one JSON object a line.

    A training that goes on from a checkpoint writes its first line for a step that may have been logged
    before the interruption; whatever stands there from this step on is then written anew.

    Args:
        path: The file.
        anew: Forget what it holds.
    """

    def __init__(self, path: Path, *, anew: bool = False) -> None:
        self.path = path
        self._begun = anew
        if anew:
            path.unlink(missing_ok=True)

    def write(self, measured: Mapping[str, float | int | None]) -> None:
        """Add a line; every line has a `step`.

        Raises:
            UserError: The file cannot be written.
        """
        line = json.dumps(measured) + "\n"
        try:
            if not self._begun:
                write_atomically(self.path, "".join(self._before(measured.get("step"))))
                self._begun = True
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise UserError(
                f"the training log '{self.path}' cannot be written: {error}. Make room, or set UNMASK_CACHE "
                "to a folder on another disk."
            ) from error

    def _before(self, step: float | None) -> list[str]:
        """The whole lines of steps before this one."""
        if step is None or not self.path.is_file():
            return []
        kept = []
        for line in self.path.read_text(encoding="utf-8").splitlines(keepends=True):
            try:
                earlier = json.loads(line)["step"] < step
            except (ValueError, KeyError, TypeError):  # the last line of a killed training
                earlier = False
            if earlier and line.endswith("\n"):
                kept.append(line)
        return kept
