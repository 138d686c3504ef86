"""Packing an evaluation so that another process can go on with it."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs
import torch

from unmask.errors import UserError, in_words
from unmask.models.guest import Visit
from unmask.plugins.catalog import catalog

if TYPE_CHECKING:
    from unmask.evaluation.inspection import ModelFacts
    from unmask.evaluation.plan import Plan
    from unmask.evaluation.preparation.preparing import Preparation

__all__ = ["Shipment", "pack", "unpack"]


@attrs.frozen(eq=False)
class Shipment:
    """All that a worker needs, models and samples included; it travels once per worker.

    Attributes:
        plan: The evaluation, its models as they were given.
        preparation: Prepares them in the same way as they were prepared here.
        facts: What is known of all models.
        threads: How many threads a model call takes here.
        answers: For every model a hash of what it answers here, to the last bit.
    """

    plan: Plan
    preparation: Preparation
    facts: Mapping[str, ModelFacts]
    threads: int
    answers: Mapping[str, str]


def pack(shipment: Shipment) -> bytes:
    """As bytes.

    Raises:
        UserError: A model, or an attack, cannot be sent to another process.
    """
    import cloudpickle

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        """Also takes TorchScript, which pickle refuses."""

        def reducer_override(self, thing: Any) -> Any:
            if isinstance(thing, torch.jit.ScriptModule):
                content = io.BytesIO()
                torch.jit.save(thing, content)
                return _script, (content.getvalue(),)
            return super().reducer_override(thing)

    # Kernels may be compiled; every process has its own.
    settings = attrs.evolve(shipment.plan.settings, kernels=None)  # type: ignore[arg-type]
    light = attrs.evolve(shipment, plan=attrs.evolve(shipment.plan, settings=settings, visit=None))
    content = io.BytesIO()
    with _by_value(_unfindable()):
        try:
            Packer(content).dump(light)
        except Exception as cause:
            raise UserError(
                f"the models and attacks cannot be sent to workers: {in_words(cause)}. Run in "
                "this process (without engine, workers and scheduler), or leave out what cannot be pickled.",
                where="engine",
            ) from cause
    return content.getvalue()


def unpack(content: bytes) -> Shipment:
    """The shipment, with the kernels of this process."""
    import cloudpickle

    shipment: Shipment = cloudpickle.loads(content)
    settings = attrs.evolve(shipment.plan.settings, kernels=catalog().kernels())
    visit = Visit(member.module for known in shipment.facts.values() for member in known.members)
    return attrs.evolve(shipment, plan=attrs.evolve(shipment.plan, settings=settings, visit=visit))


def _script(content: bytes) -> Any:
    return torch.jit.load(io.BytesIO(content))


def _unfindable() -> Iterator[ModuleType]:
    """Modules that another process could not import, such as those that lie beside a manifest."""
    found: dict[str, bool] = {}
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        if not isinstance(module, ModuleType) or getattr(module, "__file__", None) is None:
            continue
        if top not in found:
            found[top] = top in sys.stdlib_module_names or PathFinder.find_spec(top, None) is not None
        # What has no spec of its own is an alias or was made by hand.
        if not found[top] and name != "__main__" and getattr(module, "__spec__", None) is not None:
            yield module


@contextmanager
def _by_value(modules: Iterable[ModuleType]) -> Iterator[None]:
    import cloudpickle

    with ExitStack() as stack:
        for module in modules:
            try:
                cloudpickle.register_pickle_by_value(module)
            except ValueError:
                continue  # it is not under its own name in sys.modules
            stack.callback(cloudpickle.unregister_pickle_by_value, module)
        yield
