"""What happens in a worker: unpack once, then answer one request after the other."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from distributed import WorkerPlugin, get_worker

from unmask.crashes import CrashError, reason, tried
from unmask.engines.arithmetic import answers_hash
from unmask.engines.shipping import Shipment, unpack
from unmask.evaluation.execution import CellRequest, clean_outcome, limit_of, outcome_of
from unmask.results.outcome import CellOutcome, CleanOutcome

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.evaluation.inspection import ModelFacts
    from unmask.evaluation.plan import Plan

__all__ = ["GRACE", "Delivery", "answer", "beginnings"]

GRACE = 5.0
"""Seconds that an attack gets to notice that its time is over, before it is given up; as many later its
process is ended."""

_TOLD = 0.02
"""Seconds in which a message leaves this process; code that never lets other threads run could keep it."""

_contents: dict[str, bytes] = {}
_plans: dict[str, tuple[Plan, str]] = {}
_one_at_a_time = threading.RLock()
"""Models are asked by one thread at a time: the random state of a process, which they may draw from, is
one."""


def beginnings(run: str) -> str:
    """The topic under which workers tell that they begin a task whose time is limited."""
    return f"unmask-begun-{run}"


class Delivery(WorkerPlugin):
    """A shipment on its way to every worker, also to those that join later.

    Args:
        run: Names the evaluation.
        content: The packed shipment.
        own: The workers were started for it.
    """

    idempotent = False

    def __init__(self, run: str, content: bytes, own: bool) -> None:
        self.name = f"unmask-{run}"
        self._run, self._content, self._own = run, content, own

    def setup(self, worker: Any) -> None:
        """The worker has it."""
        _contents[self._run] = self._content
        if worker.nanny is not None:
            # Ctrl-C reaches every process of the terminal; the one that has the workers decides what it
            # means.
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                if self._own:
                    # A worker that ends in good order is not started anew, and the cells wait for ever.
                    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def teardown(self, worker: Any) -> None:
        """The evaluation is over."""
        _contents.pop(self._run, None)
        _plans.pop(self._run, None)


def answer(run: str, request: CellRequest | tuple[str, int]) -> tuple[CellOutcome | CleanOutcome, str]:
    """The outcome of a cell, or (a model, a shard) of the clean images; and what is to be said of the
    worker."""
    worker = get_worker()
    with _one_at_a_time:
        plan, note = _plan(run)
        try:
            attack = request.attack if isinstance(request, CellRequest) else None
            with _ended_by_force(worker, run, str(worker.get_current_task()), limit_of(plan, attack)):
                if isinstance(request, CellRequest):
                    return outcome_of(plan, request), note
                return clean_outcome(plan, *request), note
        except KeyboardInterrupt as cause:
            # Not the user's: that is the business of the process which has the workers.
            raise CrashError(reason(cause)) from cause


def _plan(run: str) -> tuple[Plan, str]:
    if run not in _plans:
        shipment = unpack(_contents[run])
        note = _agree(shipment)
        _plans[run] = shipment.preparation.applied(shipment.plan, shipment.facts), note
    return _plans[run]


def _agree(shipment: Shipment) -> str:
    """Compute as the sender does, with as many threads if that is what it takes; else say so."""
    images = shipment.plan.data.images

    def same() -> bool:
        return all(
            _answers(shipment.facts[name], images) in (expected, None)
            for name, expected in shipment.answers.items()
        )

    if same():
        return ""
    mine = torch.get_num_threads()
    torch.set_num_threads(shipment.threads)
    if same():
        return ""
    torch.set_num_threads(mine)
    return (
        "a worker rounds differently (another processor or library), so outcomes may depend on which worker "
        "computed them."
    )


def _answers(known: ModelFacts, images: Tensor) -> str | None:
    """What a model answers here; None: it fails, as its own cells will."""
    try:
        with tried({"what workers have to compute": known.name}):
            return answers_hash(known, images)
    except Exception:
        return None


@contextmanager
def _ended_by_force(worker: Any, run: str, task: str, limit: float | None) -> Iterator[None]:
    """End the process when an attack does not come back long after its time, if somebody starts it anew.

    By a thread that runs no Python, which native code can keep from running for ever.
    """
    if limit is None:
        yield
        return
    worker.log_event(beginnings(run), task)
    time.sleep(_TOLD)
    if worker.nanny is None:
        yield
        return
    with Path(os.devnull).open("w") as nowhere:
        faulthandler.dump_traceback_later(limit + 2 * GRACE, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
