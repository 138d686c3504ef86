"""How many rows go into one call of a model, and how many samples are attacked together.

Nothing here may change an outcome: what a row does depends on no other row. It only decides how fast it goes,
and whether it fits into memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs
import torch
from torch import Tensor

__all__ = [
    "QUANTUM",
    "BatchSize",
    "bucket_for",
    "buckets",
    "call_sizes",
    "give_back_memory",
    "is_out_of_memory",
    "padded",
    "rows_at_once",
    "samples_at_once",
    "sizes_that_tell",
]

QUANTUM = 8
"""The fewest rows of a call of most models; smaller calls are filled up.

Matrix and convolution libraries choose other code for very small batches, whose last bits differ. From so
many rows on (`LEAST` has what else there is) a row's answer is the same, bit for bit, in batches of any size;
where an inspection finds that it is not, the model is called one row at a time. On accelerators, where this
is not asked, calls are filled up to multiples of this many rows.
"""

LEAST = (QUANTUM // 2, QUANTUM, 2 * QUANTUM)
"""What the fewest rows of a call can be, the smallest first that does."""


def sizes_that_tell(least: int) -> list[int]:
    """Rows of the calls in which the same answers are looked for, where calls have at least so many."""
    return [13, 6, 5, 4] if least < QUANTUM else [least + 11, least]


T = TypeVar("T")


def padded(rows: int) -> int:
    """The next multiple of `QUANTUM`, at least one."""
    return max(QUANTUM, -(-rows // QUANTUM) * QUANTUM)


def buckets(limit: int) -> list[int]:
    """The batch sizes that a compiled model is called with: `QUANTUM` times the powers of two up to `limit`.

    >>> buckets(100)
    [8, 16, 32, 64]
    """
    sizes = [QUANTUM]
    while sizes[-1] * 2 <= limit:
        sizes.append(sizes[-1] * 2)
    return sizes


def bucket_for(rows: int, limit: int) -> int:
    """The bucket for the next call of a compiled model, `rows` being left: filled up by at most a third.

    >>> bucket_for(100, 256), bucket_for(70, 256)
    (128, 64)
    """
    above = next((size for size in buckets(limit) if size >= rows), None)
    if above is not None and rows >= 0.75 * above:
        return above
    return next((size for size in reversed(buckets(limit)) if size <= rows), QUANTUM)


def call_sizes(rows: int, limit: int) -> list[int]:
    """How many of these rows go into each call: in as few calls as the limit allows, all about as large.

    >>> call_sizes(58, 48), call_sizes(5, 48)
    ([29, 29], [5])
    """
    calls = -(-rows // limit)
    return [rows // calls + (k < rows % calls) for k in range(calls)]


def samples_at_once(image: Tensor) -> int:
    """Samples to attack together unless told otherwise: as many as memory surely holds, at most 256."""
    values = 2**20 if image.device.type == "cpu" else 2**25
    return min(max(values // max(image.numel(), 1), 1), 256)


def rows_at_once(image: Tensor) -> int:
    """Rows of one model call before anything was measured.

    On the CPU so few that what a layer computes stays in the cache and in mapped memory: larger calls
    are slower. Elsewhere as many as are attacked together.
    """
    if image.device.type != "cpu":
        return padded(samples_at_once(image))
    return min(padded(_CACHED // max(image.numel(), 1)), padded(samples_at_once(image)))


_CACHED = 3 * 2**15
"""Pixel values of a model call on the CPU: 32 images of 3 x 32 x 32."""


def is_out_of_memory(cause: BaseException) -> bool:
    """Whether something did not fit into memory; on the CPU PyTorch has no exception of its own for it."""
    return isinstance(cause, torch.OutOfMemoryError | MemoryError) or (
        isinstance(cause, RuntimeError) and "DefaultCPUAllocator" in str(cause)
    )


def give_back_memory() -> None:
    """Free what a failed call held; call when the exception and its frames are gone."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


@attrs.define
class BatchSize:
    """How many samples are attacked together.

    Attributes:
        rows: As many as this; halved when they do not fit into memory.
        halvings: How often that was.
    """

    rows: int
    halvings: int = 0

    def run(self, count: int, work: Callable[[slice], T]) -> list[T]:
        """Do the work for slices of `count` rows, in order; what does not fit is done again in halves.

        Raises:
            Exception: Whatever the work raises; for want of memory only where not even a single row fits.
        """
        found: list[T] = []
        first = 0
        while first < count:
            rows = slice(first, min(first + self.rows, count))
            size = rows.stop - rows.start
            try:
                found.append(work(rows))
            except Exception as cause:
                if size == 1 or not is_out_of_memory(cause):
                    raise
                self.rows, self.halvings = -(-size // 2), self.halvings + 1
            else:
                first = rows.stop
                continue
            give_back_memory()
        return found
