"""What an evaluation tells as it goes."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Progress", "Silent"]


class Progress(Protocol):
    """Told what is being done; every method may be called often and must be quick."""

    def begin(self, cells: int) -> None:
        """The number of cells of the run."""
        ...

    def cell(self, model: str, attack: str, epsilon: float) -> None:
        """A cell starts."""
        ...

    def step(self, done: int, total: int, standing: int) -> None:
        """An iterative attack made a step; `standing` samples are not broken."""
        ...

    def finished(self, *, reused: bool, broken: int = 0, forwards: int = 0) -> None:
        """The cell ended, or needed no work.

        Args:
            reused: Nothing had to be computed.
            broken: Samples that were right when clean and are wrong now.
            forwards: Forward passes that the attack spent.
        """
        ...

    def warn(self, message: str) -> None:
        """Something the user should know."""
        ...


class Silent:
    """Tells nothing."""

    def begin(self, cells: int) -> None:
        """Nothing."""

    def cell(self, model: str, attack: str, epsilon: float) -> None:
        """Nothing."""

    def step(self, done: int, total: int, standing: int) -> None:
        """Nothing."""

    def finished(self, *, reused: bool, broken: int = 0, forwards: int = 0) -> None:
        """Nothing."""

    def warn(self, message: str) -> None:
        """Nothing."""
