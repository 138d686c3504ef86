"""The loop of an iterative attack, written once: restarts, early exit, and the rows still standing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import torch
from torch import Tensor

from unmask.evaluation.task import IterativeAttack, Suite, Task

__all__ = ["examples_of", "run_attack", "run_iterative"]


def _select(state: Any, rows: Tensor, count: int) -> Any:
    """A state for some of its rows; nested states too."""
    changes = {}
    for field in attrs.fields(type(state)):
        value = getattr(state, field.name)
        if isinstance(value, Tensor) and value.ndim > 0:
            if len(value) != count:
                raise TypeError(
                    f"the tensor '{field.name}' of {type(state).__name__} has {len(value)} rows for {count} "
                    "samples; the tensors of a state have one row per sample, or no axis at all"
                )
            changes[field.name] = value[rows]
        elif attrs.has(type(value)):
            changes[field.name] = _select(value, rows, count)
    return attrs.evolve(state, **changes)


def examples_of(state: Any) -> Tensor:
    """The examples a state stands for: its field `x`."""
    x = getattr(state, "x", None)
    if not isinstance(x, Tensor):
        raise TypeError(f"the state {type(state).__name__} has no tensor field 'x' with the examples")
    return x


def run_iterative(
    attack: IterativeAttack,
    task: Task,
    on_step: Callable[[int, int, int], None] = lambda done, total, standing: None,
) -> Iterator[Tensor]:
    """Run every restart; yields the final example of every row of the task after each.

    A row leaves as soon as the door has a valid adversarial example of it, or its query budget is spent.
    A row that leaves keeps the example it had, which is no better than what the door kept.

    Args:
        attack: What to run.
        task: All rows; every restart forks its `random`.
        on_step: Told step, steps and rows still standing.
    """
    for run in range(_runs(attack, task)):
        final = task.x.clone()
        rows = task.target.active.nonzero().squeeze(1)
        if len(rows) == 0:
            return
        part = attrs.evolve(task, random=task.random.fork("restart", run), run=run).select(rows)
        state = attack.start(part)
        for step in range(attack.steps + 1):
            if step > 0:
                state = attack.step(part, state)
            active = part.target.active
            if step > 0:
                on_step(step, attack.steps, int(active.sum()))
            # At once, though the next model call is filled up again: what a row does, and what it is
            # charged, must not depend on when others leave.
            if not bool(active.all()):
                final[rows] = examples_of(state).detach()
                stay = active.nonzero().squeeze(1)
                state = _select(state, stay, len(rows))
                part, rows = part.select(stay), rows[stay]
            if len(rows) == 0:
                break
        if len(rows):
            last = examples_of(state).detach()
            final[rows] = last
            with torch.no_grad():
                part.target(last)
        yield final


def _runs(attack: IterativeAttack, task: Task) -> int:
    runs = getattr(attack, "runs", None)
    return int(runs(task)) if callable(runs) else int(getattr(attack, "restarts", 1))


def run_attack(
    attack: Any,
    task: Task,
    on_step: Callable[[int, int, int], None] = lambda done, total, standing: None,
) -> Iterator[Tensor]:
    """Run any attack; yields final examples of every row: once, once a restart, or those of every stage.

    Raises:
        TypeError: A plain call returned anything but one image for each row.
    """
    if isinstance(attack, IterativeAttack):
        yield from run_iterative(attack, task, on_step)
        return
    if isinstance(attack, Suite):
        for name, stage in attack.stages(task.ball.norm).items():
            part = attrs.evolve(task, random=task.random.fork("stage", name))
            yield from run_attack(stage.attack, part, on_step)
        return
    returned = attack(task.target, task.x.clone(), task.labels.clone(), task.ball, task.random)
    if not isinstance(returned, Tensor) or returned.shape != task.x.shape:
        got = tuple(returned.shape) if isinstance(returned, Tensor) else type(returned).__name__
        raise TypeError(f"the attack returned {got}, not one image for each of {tuple(task.x.shape)}")
    yield returned.detach().to(device=task.x.device, dtype=task.x.dtype)
