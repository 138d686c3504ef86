"""What an engine is to the schedule, and the one that needs nothing: this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

from unmask import interrupt
from unmask.evaluation.execution import CellRequest, clean_outcome, outcome_of

if TYPE_CHECKING:
    from unmask.evaluation.plan import Plan
    from unmask.results.outcome import CellOutcome, CleanOutcome

__all__ = ["Engine", "Serial"]


class Engine(Protocol):
    """Computes what the schedule asks for; order and place make no difference to any outcome."""

    def run(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Do independent jobs, each of which asks for cells one after the other.

        Raises:
            KeyboardInterrupt: The work was interrupted.
        """
        ...

    def clean(self, model: str, shard: int) -> CleanOutcome:
        """What a model makes of the clean images of a shard; failures are outcomes too."""
        ...

    def cell(
        self,
        request: CellRequest,
        on_step: Callable[[int, int, int], None],
        keep: Callable[[CellOutcome], None],
    ) -> CellOutcome:
        """The outcome of a cell; arguments as for `outcome_of`."""
        ...

    def notes(self) -> list[str]:
        """Sentences that belong to the warnings of the result."""
        ...


@attrs.frozen(eq=False)
class Serial:
    """Everything in this process, one thing after the other."""

    plan: Plan

    def run(self, jobs: Sequence[Callable[[], None]]) -> None:
        """As `Engine.run`."""
        for job in jobs:
            interrupt.stop_if_asked()
            job()

    def clean(self, model: str, shard: int) -> CleanOutcome:
        """As `Engine.clean`."""
        return clean_outcome(self.plan, model, shard)

    def cell(
        self,
        request: CellRequest,
        on_step: Callable[[int, int, int], None],
        keep: Callable[[CellOutcome], None],
    ) -> CellOutcome:
        """As `Engine.cell`."""
        interrupt.stop_if_asked()
        return outcome_of(self.plan, request, on_step=on_step, keep=keep)

    def notes(self) -> list[str]:
        """None."""
        return []
