"""Which engine an evaluation runs on, settled before any work."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import attrs

from unmask.engines.engine import Engine, Serial
from unmask.errors import MisuseError, UserError, suggestion

if TYPE_CHECKING:
    from unmask.evaluation.inspection import ModelFacts
    from unmask.evaluation.plan import Plan
    from unmask.evaluation.preparation.preparing import Preparation

__all__ = ["ENGINES", "EngineChoice"]

ENGINES = ("serial", "dask")


@attrs.frozen
class EngineChoice:
    """The engine that was asked for.

    Attributes:
        name: ``serial``: in this process; ``dask``: by worker processes.
        workers: How many worker processes to start on this machine.
        scheduler: Address of a running Dask scheduler instead.
    """

    name: Literal["serial", "dask"] = "serial"
    workers: int | None = None
    scheduler: str | None = None

    @classmethod
    def checked(cls, engine: Any = None, workers: Any = None, scheduler: Any = None) -> EngineChoice:
        """What is meant; workers or a scheduler mean Dask.

        Raises:
            UserError: An unknown engine, options that contradict each other, or Dask is not installed.
        """
        if workers is not None:
            if isinstance(workers, bool) or not isinstance(workers, int):
                raise MisuseError(f"must be a whole number, not {workers!r}.", where="workers")
            if workers < 1:
                raise UserError(f"must be at least 1, not {workers}.", where="workers")
        if scheduler is not None and (not isinstance(scheduler, str) or not scheduler.strip()):
            raise MisuseError(
                f"must be the address of a Dask scheduler, such as 'tcp://10.0.0.1:8786', not {scheduler!r}.",
                where="scheduler",
            )
        if engine is None:
            engine = "serial" if workers is None and scheduler is None else "dask"
        if engine not in ENGINES:
            raise UserError(f"'{engine}' is unknown. {suggestion(str(engine), ENGINES)}", where="engine")
        if engine == "serial":
            for where, value in (("workers", workers), ("scheduler", scheduler)):
                if value is not None:
                    raise UserError(
                        "the serial engine has none. Leave it out, or leave 'engine' out.", where=where
                    )
            return cls()
        if workers is not None and scheduler is not None:
            raise UserError(
                "a running scheduler has its own workers. Give the number of workers to start here, or the "
                "address of a scheduler.",
                where="workers",
            )
        if importlib.util.find_spec("distributed") is None:
            raise UserError(
                "Dask is not installed, which starts and feeds the workers. Install it with "
                "`pip install 'unmask[dask]'`, or leave engine, workers and scheduler out.",
                where="engine",
            )
        return cls("dask", workers, scheduler)

    @contextmanager
    def opened(
        self, plan: Plan, bare: Plan, preparation: Preparation, facts: Mapping[str, ModelFacts]
    ) -> Iterator[Engine]:
        """The engine, for as long as the block runs.

        Args:
            plan: The evaluation, its models prepared.
            bare: The same, its models as they were given: what can be sent to a worker.
            preparation: How they were prepared; workers do the same.
            facts: What is known of all models.

        Raises:
            UserError: The workers cannot be had, or cannot be given the models.
        """
        if self.name == "serial":
            yield Serial(plan)
            return
        from unmask.engines.dask import workers

        with workers(self, bare, preparation, facts) as engine:
            yield engine

    def record(self) -> dict[str, Any]:
        """As JSON; without the scheduler's address, which is nobody's business."""
        return {"engine": self.name, **({"workers": self.workers} if self.workers else {})}
