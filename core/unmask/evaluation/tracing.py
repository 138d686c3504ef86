"""The input gradient along an attack's path, step by step: is there anything in it to follow?

Boytsov et al. (2025), appendix A.2. An attack is run once more on every clean-correct sample, from the same
random start as in its cell and to its last step, whether or not the sample falls on the way; the door looks
at every gradient that passes. So a model that falls at once can be laid beside one that does not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import torch
from torch import Tensor

from unmask.crashes import reason, tried
from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE, STEP, TRACED
from unmask.evaluation.ledger import Ledger
from unmask.evaluation.loop import run_iterative
from unmask.evaluation.random import SampleRandom
from unmask.evaluation.subject import Batch
from unmask.evaluation.target import Target
from unmask.evaluation.task import IterativeAttack, Task
from unmask.evaluation.threat import Ball

if TYPE_CHECKING:
    import xarray as xr

    from unmask.configured import ConfiguredAttack
    from unmask.data import LabelledImages
    from unmask.evaluation.subject import CellSettings, Subject

__all__ = ["SMALL", "describe_gradients", "with_traces"]

SMALL = 0.01
"""Below this magnitude an entry of a gradient counts as small (Boytsov et al. 2025, appendix A.2)."""


def describe_gradients(gradient: Tensor) -> Tensor:
    """What every sample's gradient looks like, float64 [sample, quantity], in the order of `TRACED`.

    The shares are of all entries; mean, median, 99 % quantile and skewness are of the magnitudes of the
    finite ones, NaN where there are none, the skewness also where all are equal.

    Args:
        gradient: [sample, channel, height, width].
    """
    entries = gradient.detach().double().flatten(1)
    size = entries.abs()
    nan, infinite = entries.isnan(), entries.isinf()
    known = torch.where(nan | infinite, torch.nan, size)
    mean = known.nanmean(1)
    away = known - mean[:, None]
    variance, third = away.square().nanmean(1), away.pow(3).nanmean(1)
    return torch.stack(
        [
            (size < SMALL).double().mean(1),
            nan.double().mean(1),
            infinite.double().mean(1),
            mean,
            known.nanquantile(0.5, 1),
            known.nanquantile(0.99, 1),
            third / variance.pow(1.5),
        ],
        1,
    )


@attrs.define(eq=False)
class _TracingLedger(Ledger):
    """A door whose book also holds what the gradients of every step look like.

    Attributes:
        steps: How many steps the attack makes.
        step: Which one it is making; 0 before the first.
    """

    steps: int = attrs.field(kw_only=True)
    step: int = attrs.field(default=0, kw_only=True)
    sums: Tensor = attrs.field(init=False)
    counts: Tensor = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        shape, device = (self.steps + 1, len(self.clean)), self.clean.device
        self.sums = torch.zeros((*shape, len(TRACED)), dtype=torch.float64, device=device)
        self.counts = torch.zeros(shape, dtype=torch.float64, device=device)

    def saw_gradient(self, rows: Tensor, gradient: Tensor) -> None:
        super().saw_gradient(rows, gradient)
        self.sums[self.step].index_add_(0, rows, describe_gradients(gradient))
        self.counts[self.step].index_add_(0, rows, torch.ones(len(rows), dtype=torch.float64).to(rows.device))

    @property
    def means(self) -> Tensor:
        """Means over the gradients of each step, [step, sample, quantity]; NaN where there were none."""
        return self.sums / self.counts[..., None]


@attrs.define(eq=False)
class _Counting:
    """An attack that tells the book which step it is in; one run, however many it has."""

    attack: IterativeAttack
    ledger: _TracingLedger
    steps: int

    def start(self, task: Task) -> Any:
        return self.attack.start(task)

    def step(self, task: Task, state: Any) -> Any:
        self.ledger.step += 1
        return self.attack.step(task, state)


def with_traces(
    results: xr.Dataset,
    subjects: Sequence[Subject],
    attacks: Mapping[str, ConfiguredAttack],
    data: LabelledImages,
    settings: CellSettings,
) -> xr.Dataset:
    """The result with the variables of `TRACED` over (model, attack, epsilon, step, sample).

    Traced are iterative attacks that search within a ball by gradients. Step 0 holds the gradients an attack
    takes before its first step. NaN: not traced, no gradient taken in that step, or wrong when clean.

    Args:
        results: The result.
        subjects: The models, on their devices.
        attacks: The attacks by their names in the result.
        data: The samples.
        settings: What all cells of the run share.
    """
    chosen = {
        name: configured
        for name, configured in attacks.items()
        if isinstance(configured.attack, IterativeAttack)
        and configured.access == "gradients"
        and configured.entry.search == "within"
    }
    steps = max((int(configured.attack.steps) for configured in chosen.values()), default=0)
    names = [str(name) for name in results[ATTACK].values]
    radii = results[EPSILON].values.tolist()
    shape = (len(subjects), len(names), len(radii), steps + 1, len(data), len(TRACED))
    found = np.full(shape, np.nan, dtype=np.float32)
    warnings: list[str] = json.loads(results.attrs.get("warnings", "[]"))
    started = time.perf_counter()
    for i, subject in enumerate(subjects):
        right = torch.as_tensor(results["clean_correct"].isel({MODEL: i}).values > 0)
        for name, configured in chosen.items():
            if (results["status"].isel({MODEL: i}).sel({ATTACK: name}) == _not_run()).all():
                continue
            for e, epsilon in enumerate(radii):
                if epsilon <= 0:
                    continue
                try:
                    with tried({"trace": name, "model": subject.name, "epsilon": epsilon.hex()}):
                        for rows in right.nonzero().squeeze(1).split(subject.batch.rows):
                            means = _traced(name, configured, subject, data.select(rows), epsilon, settings)
                            place = found[i, names.index(name), e, : len(means)]
                            place[:, rows.numpy()] = means.cpu().numpy()
                except Exception as cause:
                    # Whatever a model or an attack raises here must cost this trace alone.
                    warnings.append(
                        f"the gradients of '{name}' on model '{subject.name}' could not be traced: "
                        f"{reason(cause)}."
                    )
                    break
    dims = (MODEL, ATTACK, EPSILON, STEP, SAMPLE)
    return (
        results.assign(
            {
                name: (dims, found[..., k], {"units": unit, "long_name": meaning})
                for k, (name, (unit, meaning)) in enumerate(TRACED.items())
            }
        )
        .assign_coords({STEP: (STEP, np.arange(steps + 1), {"long_name": "step of the attack"})})
        .assign_attrs(warnings=json.dumps(warnings), trace_seconds=time.perf_counter() - started)
    )


def _not_run() -> int:
    from unmask.dimensions import Status

    return int(Status.NOT_RUN)


def _traced(
    name: str,
    configured: ConfiguredAttack,
    subject: Subject,
    data: LabelledImages,
    epsilon: float,
    settings: CellSettings,
) -> Tensor:
    """Means of every step and sample, float64 [step, sample, quantity]."""
    facts = subject.oracle.facts
    images = data.images.to(device=facts.device, dtype=facts.dtype)
    batch = Batch(images, data.labels.to(facts.device), data.ids)

    def stream(purpose: str) -> SampleRandom:
        # The streams of the cell itself, so that the path is that of its first run.
        return SampleRandom.for_samples(
            batch.ids.tolist(), settings.seed, subject.name, name, epsilon, purpose,
            kernels=settings.kernels, dtype=images.dtype, device=images.device,
        )  # fmt: skip

    targets = settings.targets_of(name, batch)
    ball = Ball(settings.norm, epsilon, settings.bounds, settings.kernels)
    ledger = _TracingLedger(
        oracle=subject.oracle,
        clean=batch.images,
        labels=batch.labels,
        ball=ball,
        random=stream("model"),
        early_exit=False,
        targets=targets,
        steps=int(configured.attack.steps),
    )
    task = Task(
        Target(ledger, run=subject.run),
        batch.images.clone(),
        batch.labels.clone(),
        ball,
        stream("attack"),
        targets=None if targets is None else targets.clone(),
    )
    with torch.enable_grad():
        for _ in run_iterative(_Counting(configured.attack, ledger, ledger.steps), task):
            break
    return ledger.means
