"""Measuring two things so that their ratio means something on a machine that others use too."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import attrs
import torch


@attrs.frozen
class Pair:
    """Seconds of two contestants, measured in turn.

    Attributes:
        ours: Of every repeat.
        theirs: Likewise.
    """

    ours: list[float]
    theirs: list[float]

    @property
    def speedup(self) -> float:
        """How many times faster ours is: the median over the pairs of their ratio."""
        return statistics.median(b / a for a, b in zip(self.ours, self.theirs, strict=True))

    @property
    def overhead(self) -> float:
        """How many times longer ours takes."""
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    @property
    def medians(self) -> tuple[float, float]:
        return statistics.median(self.ours), statistics.median(self.theirs)


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """On the CPU the process's own time, which others on the machine do not lengthen; elsewhere wall time."""
    if device.type == "cpu" and torch.get_num_threads() == 1:
        started = time.process_time()
        work()
        return time.process_time() - started
    synchronise(device)
    started = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - started


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def in_turn(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    device: torch.device,
    repeats: int,
) -> Pair:
    """A B A B ...: what slows the machine down for a while slows both down. The first pair does not count."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats + 1):
        times[0].append(seconds(ours, device))
        times[1].append(seconds(theirs, device))
    return Pair(times[0][1:], times[1][1:])
