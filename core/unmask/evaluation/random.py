"""Random numbers of a sample's own: the same whatever the batch it travels in.

Counter-based: a draw is a function of the sample's key and of how many draws that sample has made, so it
depends neither on the other samples nor on how many of them are left.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unmask.evaluation.rows import occurrence

if TYPE_CHECKING:
    from unmask.kernels import Kernels

__all__ = ["SampleRandom", "derive_seed"]


def derive_seed(*parts: object) -> int:
    """A 63-bit seed from anything with a stable text form; floats by their exact value."""
    text = "\x1f".join(part.hex() if isinstance(part, float) else str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


class SampleRandom:
    """One random stream per sample.

    Every method takes the shape of one sample's draw and returns a tensor with the sample in front
    of it.

    Args:
        keys: int64 [sample, 2], two 32-bit words each.
        kernels: The counter-based generator.
        dtype: Floating dtype of the draws.
    """

    def __init__(
        self,
        keys: Tensor,
        kernels: Kernels,
        dtype: torch.dtype = torch.float32,
        *,
        _counters: Tensor | None = None,
        _rows: Tensor | None = None,
    ) -> None:
        self._keys = keys
        self._kernels = kernels
        self._dtype = dtype
        # Shared with every selection of these samples, so that no draw is ever repeated.
        self._counters = (
            torch.zeros(len(keys), dtype=torch.int64, device=keys.device) if _counters is None else _counters
        )
        self._rows = torch.arange(len(keys), device=keys.device) if _rows is None else _rows

    @classmethod
    def for_samples(
        cls,
        ids: Iterable[int],
        *purpose: object,
        kernels: Kernels,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> SampleRandom:
        """Streams keyed by a purpose (seed, model, attack, epsilon, restart, ...) and each sample's id."""
        words = []
        for identity in ids:
            words.append(divmod(derive_seed(*purpose, int(identity)), 2**32))
        keys = torch.tensor(words, dtype=torch.int64).reshape(-1, 2).to(device)
        return cls(keys, kernels, dtype)

    def __len__(self) -> int:
        return len(self._rows)

    def select(self, rows: Tensor) -> SampleRandom:
        """The streams of these rows; their draws go on where they are.

        A row that is named twice gets two different draws.
        """
        return SampleRandom(
            self._keys, self._kernels, self._dtype, _counters=self._counters, _rows=self._rows[rows]
        )

    def fork(self, *purpose: object) -> SampleRandom:
        """Streams of the same samples for a purpose of their own, such as a restart; at their first draw."""
        words = [
            divmod(derive_seed(high, low, *purpose), 2**32) for high, low in self._keys[self._rows].tolist()
        ]
        keys = torch.tensor(words, dtype=torch.int64, device=self._keys.device).reshape(-1, 2)
        return SampleRandom(keys, self._kernels, self._dtype)

    def _advance(self) -> tuple[Tensor, Tensor]:
        calls = self._counters[self._rows] + occurrence(self._rows)
        self._counters.index_add_(0, self._rows, torch.ones_like(self._rows))
        return self._keys[self._rows], calls

    def _shaped(self, flat: Tensor, shape: Sequence[int]) -> Tensor:
        return flat.reshape(len(self), *shape)

    def uniform(self, shape: Sequence[int] = (), low: float = 0.0, high: float = 1.0) -> Tensor:
        """Uniform numbers in [low, high)."""
        keys, calls = self._advance()
        unit = self._kernels.uniform(keys, calls, math.prod(shape), self._dtype)
        return self._shaped(unit * (high - low) + low, shape)

    def normal(self, shape: Sequence[int] = ()) -> Tensor:
        """Standard normal numbers."""
        keys, calls = self._advance()
        return self._shaped(self._kernels.normal(keys, calls, math.prod(shape), self._dtype), shape)

    def integers(self, low: int, high: int, shape: Sequence[int] = ()) -> Tensor:
        """Whole numbers in [low, high), int64."""
        if high <= low:
            raise ValueError(f"integers need low < high, not [{low}, {high})")
        keys, calls = self._advance()
        return self._shaped(self._kernels.integers(keys, calls, math.prod(shape), low, high), shape)

    def signs(self, shape: Sequence[int] = ()) -> Tensor:
        """-1 or +1 with equal probability."""
        keys, calls = self._advance()
        return self._shaped(self._kernels.signs(keys, calls, math.prod(shape), self._dtype), shape)
