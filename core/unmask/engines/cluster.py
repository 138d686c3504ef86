"""Worker processes: started here, or those of a running Dask scheduler."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, TypeVar

from unmask.errors import UserError

if TYPE_CHECKING:
    from unmask.engines.choice import EngineChoice

__all__ = ["DEATHS", "await_workers", "client_of", "in_spite_of_deaths"]

T = TypeVar("T")

DEATHS = 2
"""Worker processes that may die with a cell before it is computed alone.

A worker takes all with it that it had been given, so a death may be another cell's fault, or nobody's. What
dies as often while nothing else runs has failed by its own.
"""

_PATIENCE = 5
"""Times that all workers are asked again."""


@contextmanager
def client_of(choice: EngineChoice) -> Iterator[Any]:
    """A client of workers started here, or of a running scheduler."""
    import dask
    from distributed import Client, LocalCluster

    if choice.scheduler is not None:
        try:
            client = Client(choice.scheduler, timeout="20s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise UserError(
                f"no Dask scheduler answers at '{choice.scheduler}': {error}. Start one with `dask "
                "scheduler`, or leave 'scheduler' out and give a number of workers.",
                where="scheduler",
            ) from error
        with client:
            yield client
        return
    count = choice.workers or _cores()
    threads = max(1, _cores() // count)
    # In the place of Dask's own settings, whose MALLOC_TRIM_THRESHOLD_ makes glibc give every tensor's
    # memory back at once, and fault it in anew for the next one.
    environment = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
    settings = {
        "distributed.scheduler.allowed-failures": DEATHS - 1,
        "distributed.nanny.pre-spawn-environ": environment,
        "distributed.worker.profile.enabled": False,
    }
    with (
        tempfile.TemporaryDirectory(prefix="unmask-") as scratch,
        dask.config.set(settings),
        warnings.catch_warnings(),
    ):
        # Of a dashboard that nobody asked for.
        warnings.filterwarnings("ignore", message="Port [0-9]+ is already in use")
        cluster = _started(
            lambda: LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                memory_limit=None,
                local_directory=scratch,
                silence_logs=logging.CRITICAL,
            )
        )
        log, quiet = logging.getLogger("asyncio"), _OfCutConnections()
        log.addFilter(quiet)
        try:
            with cluster, Client(cluster, set_as_default=False) as client:
                yield client
        finally:
            log.removeFilter(quiet)


def _started(start: Callable[[], T]) -> T:
    """Workers that run; once more where one of them died while it started."""
    if _LEAKED not in sys.warnoptions:
        # Handed down to the process that cleans up after this one, should it be killed.
        sys.warnoptions.append(_LEAKED)
    for last in (False, True):
        try:
            with _deaf_to_interrupts():
                return start()
        except (OSError, RuntimeError) as error:
            if last:
                raise UserError(
                    f"no workers can be started: {error}. A script that asks for workers needs the line "
                    "`if __name__ == '__main__':` before it does; without workers everything runs in this "
                    "process.",
                    where="workers",
                ) from error
    raise AssertionError("the second try returns or raises")


class _OfCutConnections(logging.Filter):
    """Lets through what is not Dask's own surprise at a worker that died."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is told."""
        kind = record.exc_info[0] if record.exc_info else None
        return kind is None or kind.__name__ not in ("AllExit", "CommClosedError")


_LEAKED = "ignore:resource_tracker:UserWarning"
"""A warning about what it has cleaned up."""


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Threads and processes that are started here never see Ctrl-C, which reaches all of a terminal's.

    What it means is for the process that has them to say; it sees it when the block is left.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Started later it would make the thread that starts it hear them again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def in_spite_of_deaths(work: Callable[[], T]) -> T:
    """What asks all workers at once, asked again where one of them died meanwhile."""
    for _ in range(_PATIENCE):
        try:
            return work()
        except OSError:
            time.sleep(1)
    return work()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def await_workers(client: Any, choice: EngineChoice) -> int:
    """How many workers there are; waits for the first."""
    try:
        client.wait_for_workers(choice.workers or 1, timeout=120)
    except TimeoutError as error:
        raise UserError(
            "the scheduler has no workers. Start some with `dask worker ADDRESS`.",
            where="scheduler" if choice.scheduler else "workers",
        ) from error
    mine = _versions()
    found: Mapping[str, Mapping[str, str]] = client.run(_versions)
    for address, theirs in found.items():
        if theirs != mine:
            raise UserError(
                f"the worker {address} has {theirs}, this process {mine}. Install the same on both.",
                where="scheduler",
            )
    return len(found)


def _versions() -> dict[str, str]:
    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        **{name: metadata.version(name) for name in ("unmask", "torch")},
    }
