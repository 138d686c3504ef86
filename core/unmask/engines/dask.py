"""Worker processes, on this machine or on a cluster, fed by Dask.

The unit of work is a cell of a shard: model, attack, radius, 256 samples. The radii of one attack on one
model and shard follow each other, since what was found at a smaller radius counts at a larger one; so do the
stages of a suite. Everything else is independent. Models and samples travel once to each worker; a request
holds what the clean images and the smaller radii gave. Results come back to the process that started the
run, which alone writes files.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import torch

from unmask import interrupt
from unmask.crashes import OVERDUE, reason, tried
from unmask.engines.arithmetic import answers_hash
from unmask.engines.cluster import DEATHS, await_workers, client_of, in_spite_of_deaths
from unmask.engines.engine import Engine
from unmask.engines.shipping import Shipment, pack
from unmask.engines.worker import GRACE, Delivery, answer, beginnings
from unmask.errors import UserError
from unmask.evaluation.execution import CellRequest, limit_of
from unmask.results.outcome import CellOutcome, CleanOutcome

if TYPE_CHECKING:
    from unmask.engines.choice import EngineChoice
    from unmask.evaluation.inspection import ModelFacts
    from unmask.evaluation.plan import Plan
    from unmask.evaluation.preparation.preparing import Preparation

__all__ = ["Workers", "workers"]

T = TypeVar("T")

_LOOK, _WITHOUT_WORKERS = 5.0, 60.0
"""Seconds between two looks at which workers there are, and without any after which none will come."""

_MANY = 64
"""Cells that are asked for at the same time, at least, of a cluster that may grow."""


@contextmanager
def workers(
    choice: EngineChoice, plan: Plan, preparation: Preparation, facts: Mapping[str, ModelFacts]
) -> Iterator[Engine]:
    """The engine, for as long as its workers are there; arguments as for `EngineChoice.opened`.

    Raises:
        UserError: The workers cannot be had, or cannot be given the models.
    """
    answers = {}
    for name, known in facts.items():
        # One that fails here will fail in its own cells.
        with suppress(Exception), tried({"what workers have to compute": name}):
            answers[name] = answers_hash(known, plan.data.images)
    content = pack(Shipment(plan, preparation.for_worker(), facts, torch.get_num_threads(), answers))
    run, own = uuid.uuid4().hex, choice.scheduler is None
    with ExitStack() as stack:
        client = stack.enter_context(client_of(choice))
        there = in_spite_of_deaths(lambda: await_workers(client, choice))
        in_spite_of_deaths(lambda: client.register_plugin(Delivery(run, content, own)))
        if not own:
            # A cluster outlives the run; its workers need not keep the models.
            stack.callback(client.unregister_worker_plugin, f"unmask-{run}")
        made = Workers(plan, client, run, there if own else max(_MANY, 2 * there), own)
        client.subscribe_topic(beginnings(run), made.saw_beginning)
        if not own:
            stack.callback(client.unsubscribe_topic, beginnings(run))
        yield made


@attrs.define(eq=False)
class Workers:
    """The cells of an evaluation, answered by the workers of a Dask client; an `Engine`.

    Attributes:
        plan: The evaluation.
        client: Asks them.
        name: Names the evaluation among the workers.
        together: How many requests are on their way at the same time.
        own: The workers were started for this evaluation.
    """

    plan: Plan
    client: Any
    name: str
    together: int
    own: bool
    _notes: set[str] = attrs.field(factory=set)
    _looked: float = attrs.field(factory=time.monotonic)
    _seen: float = attrs.field(factory=time.monotonic)
    _begun: dict[str, float] = attrs.field(factory=dict)
    _quiet: threading.Condition = attrs.field(factory=threading.Condition)
    _running: int = 0
    _alone: bool = False
    _ended: threading.Event = attrs.field(factory=threading.Event)

    def run(self, jobs: Sequence[Callable[[], None]]) -> None:
        """As `Engine.run`, several at a time; an interrupted run still waits for what is being computed."""
        failure: BaseException | None = None
        pool = ThreadPoolExecutor(min(self.together, max(len(jobs), 1)), thread_name_prefix="unmask")
        waiting: set[Future[None]] = {pool.submit(job) for job in jobs}
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in done:
                    error = None if future.cancelled() else future.exception()
                    if error is not None and failure is None:
                        failure = error
                        if not isinstance(error, KeyboardInterrupt):
                            self._ended.set()
                        for other in waiting:
                            other.cancel()
            if failure is not None:
                raise failure
        finally:
            # Reached early only by a second Ctrl-C: nobody waits for an answer any more.
            if waiting:
                self._ended.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def clean(self, model: str, shard: int) -> CleanOutcome:
        """As `Engine.clean`."""
        found = self._answer((model, shard))
        if isinstance(found, str):
            count = len(self.plan.shard(shard))
            return CleanOutcome.failed(count, f"the model failed on clean images: {found}")
        assert isinstance(found, CleanOutcome)
        return found

    def cell(
        self,
        request: CellRequest,
        on_step: Callable[[int, int, int], None],
        keep: Callable[[CellOutcome], None],
    ) -> CellOutcome:
        """As `Engine.cell`; steps are not told, and a cell is kept whole or not at all."""
        found = self._answer(request)
        if isinstance(found, str):
            return CellOutcome.failed(len(request.clean), found)
        assert isinstance(found, CellOutcome)
        return found

    def notes(self) -> list[str]:
        """What the workers had to say."""
        return sorted(self._notes)

    def _check_workers(self) -> None:
        """Give up where no worker is left and none comes; of a cluster somebody else may start some.

        Raises:
            UserError: So it is.
        """
        now = time.monotonic()
        if not self.own or now < self._looked + _LOOK:
            return
        self._looked = now
        if self.client.nthreads():
            self._seen = now
        elif now > self._seen + _WITHOUT_WORKERS:
            raise UserError(
                "all worker processes have ended and none starts; what is finished is kept. Run again to go "
                "on.",
                where="workers",
            )

    def saw_beginning(self, event: tuple[float, str]) -> None:
        """A worker has begun a task; its time counts from now."""
        self._begun[event[1]] = time.monotonic()

    def _answer(self, request: CellRequest | tuple[str, int]) -> CellOutcome | CleanOutcome | str:
        """A worker's answer, or why there is none."""
        from distributed import KilledWorker

        for alone in (False, True):
            with self._admitted(alone):
                try:
                    return self._asked(request)
                except KilledWorker:
                    continue
        return (
            f"its worker process died {DEATHS} times while nothing else was computed: the attack or model "
            "crashes it, or there is too little memory"
        )

    @contextmanager
    def _admitted(self, alone: bool) -> Iterator[None]:
        """One request among others, or while there is no other."""
        with self._quiet:
            self._quiet.wait_for(lambda: not self._alone and not (alone and self._running))
            self._running += 1
            self._alone = alone
        try:
            yield
        finally:
            with self._quiet:
                self._running -= 1
                self._alone = False
                self._quiet.notify_all()

    def _asked(self, request: CellRequest | tuple[str, int]) -> CellOutcome | CleanOutcome | str:
        from distributed import KilledWorker

        interrupt.stop_if_asked()
        if self._ended.is_set():
            raise KeyboardInterrupt
        limit = limit_of(self.plan, request.attack if isinstance(request, CellRequest) else None)
        key = f"unmask-{uuid.uuid4().hex}"
        future = self.client.submit(answer, self.name, request, key=key, pure=False)
        while True:
            try:
                found, note = future.result(timeout=0.5)
            except TimeoutError:
                if self._ended.is_set():
                    future.cancel()
                    raise KeyboardInterrupt from None
                self._check_workers()
                if limit is not None and time.monotonic() > self._begun.get(key, inf) + limit + GRACE:
                    future.cancel()
                    return OVERDUE
                continue
            except CancelledError as error:
                if self._ended.is_set():
                    raise KeyboardInterrupt from None
                raise UserError(
                    "the connection to the scheduler is lost; what is finished is kept. Run again to go on.",
                    where="scheduler",
                ) from error
            except KilledWorker:
                raise
            except Exception as error:
                return reason(error)
            if note:
                self._notes.add(note)
            answered: CellOutcome | CleanOutcome = found
            return answered
