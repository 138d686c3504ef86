"""What an attack or a gradient source is given, without an evaluation round it."""

from __future__ import annotations

from torch import Tensor, nn

from unmask.evaluation.inspection import inspect_model
from unmask.evaluation.ledger import Ledger
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.random import SampleRandom
from unmask.evaluation.target import Target
from unmask.evaluation.task import Task
from unmask.evaluation.threat import Ball, Norm
from unmask.plugins.catalog import catalog

__all__ = ["task_of"]


def task_of(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    norm: Norm = "linf",
    epsilon: float = 0.1,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    targets: Tensor | None = None,
    seed: int = 0,
    nearest: bool = False,
    early_exit: bool = False,
) -> Task:
    """A task as an evaluation would make it: door, images, labels, ball and random streams.

    ``list(unmask.run_attack(attack, task))`` runs an attack on it. The run's only model is called ``model``.

    Args:
        model: A classifier in eval mode.
        images: Floats [sample, channel, height, width] in `bounds`.
        labels: Class indices, int64 [sample].
        norm: ``linf``, ``l2`` or ``l1``.
        epsilon: The radius.
        bounds: Smallest and largest valid pixel value.
        targets: The classes to be reached, int64 [sample].
        seed: Of every random stream.
        nearest: For a nearest search: the radius is then infinite.
        early_exit: Rows leave when they are broken, as in an evaluation.

    Raises:
        UserError: The model cannot be evaluated; the message says why.
    """
    kernels = catalog().kernels()

    def stream(purpose: str) -> SampleRandom:
        return SampleRandom.for_samples(
            range(len(images)), seed, purpose, kernels=kernels, dtype=images.dtype
        )

    ball = Ball(norm, float("inf") if nearest else epsilon, bounds, kernels)
    oracle = Oracle(inspect_model(model, images, labels), 64)

    def ledger(purpose: str, nearest: bool, early_exit: bool) -> Ledger:
        return Ledger(
            oracle=oracle,
            clean=images,
            labels=labels,
            ball=ball,
            random=stream(purpose),
            nearest=nearest,
            targets=targets,
            early_exit=early_exit,
        )

    # A transfer attack may use the model itself as its source.
    source = ledger("source", nearest=False, early_exit=False)
    target = Target(
        ledger("model", nearest, early_exit),
        others={"model": lambda rows: Target(source, rows)},
        run=("model",),
    )
    return Task(target, images, labels, ball, stream("attack"), targets=targets)
