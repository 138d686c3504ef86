"""Counter-based random numbers: every sample has its own stream, whatever batch it travels in.

Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"): a bijection
of a 128-bit counter under a 64-bit key, written in int64 tensor arithmetic. A sample's key is two 32-bit
words; the counter's words are the block's index (low, high) and the sample's call number (low, high). What a
sample draws is a function of its key and its call number alone, bit for bit the same on every device for
`uniform`, `integers` and `signs`, and to rounding for `normal`.

A draw of k numbers is the beginning of a draw of more than k under the same key and call number.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask_kernels.compiling import kernel

__all__ = ["integers", "normal", "philox4x32", "signs", "uniform"]


def _rounds(
    c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor, k0: Tensor, k1: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ten rounds. Words are int64 in [0, 2**32)."""
    word = 0xFFFFFFFF
    for _ in range(10):
        # The multipliers 0xD2511F53 and 0xCD9E8D57 less 2**32: the products stay within int64, their low
        # words are the same, and adding the factor to their high words makes up for the difference.
        a = c0 * -766435501
        b = c2 * -845247145
        high_a = (a >> 32) + c0
        high_b = (b >> 32) + c2
        c0, c1, c2, c3 = high_b ^ c1 ^ k0, b & word, high_a ^ c3 ^ k1, a & word
        k0 = (k0 + 0x9E3779B9) & word
        k1 = (k1 + 0xBB67AE85) & word
    return c0, c1, c2, c3


@kernel
def _words(keys: Tensor, counters: Tensor, count: int) -> Tensor:
    """The first `count` 32-bit words of every sample's call, int64 [n, count]."""
    word = 0xFFFFFFFF
    blocks = torch.arange((count + 3) // 4, dtype=torch.int64, device=keys.device).unsqueeze(0)
    calls = counters.unsqueeze(1)
    c0, c1, c2, c3 = _rounds(
        blocks & word,
        (blocks >> 32) & word,
        (calls & word).expand(-1, blocks.shape[1]),
        ((calls >> 32) & word).expand(-1, blocks.shape[1]),
        keys[:, 0:1] & word,
        keys[:, 1:2] & word,
    )
    return torch.stack([c0, c1, c2, c3], dim=2).flatten(1)[:, :count]


def philox4x32(counters: Tensor, keys: Tensor) -> Tensor:
    """The bijection itself: counters [n, 4] and keys [n, 2], 32-bit words in int64, to words [n, 4]."""
    c0, c1, c2, c3 = counters.unbind(1)
    k0, k1 = keys.unbind(1)
    return torch.stack(_rounds(c0, c1, c2, c3, k0, k1), dim=1)


# What follows turns words into numbers. The rounds are a kernel of their own, because a compiler takes ten
# times as long for them as for the rest: they are compiled once rather than for each kind of number.


def _fractions(words: Tensor) -> Tensor:
    """Whole numbers in [0, 2**53) from two words each, exact in float64: [n, 2k] to [n, k]."""
    return ((words[:, 0::2] >> 5) * 67108864 + (words[:, 1::2] >> 6)).double()


@kernel
def _uniform_single(words: Tensor) -> Tensor:
    # 24 bits: more would round up to 1 in float32.
    return (words >> 8).float() * 5.9604644775390625e-08


@kernel
def _uniform_double(words: Tensor) -> Tensor:
    return _fractions(words) * 1.1102230246251565e-16


@kernel
def _normal(words: Tensor) -> Tensor:
    fractions = _fractions(words)
    # (0, 1]: the logarithm is finite and the largest normal number is 8.6.
    radius = torch.sqrt(-2.0 * torch.log((fractions[:, 0::2] + 1.0) * 1.1102230246251565e-16))
    angle = fractions[:, 1::2] * 6.975736996017264e-16
    return torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], dim=2).flatten(1)


@kernel
def _integers(words: Tensor, span: int) -> Tensor:
    return (words * span) >> 32


@kernel
def _signs(words: Tensor) -> Tensor:
    bits = torch.arange(32, dtype=torch.int64, device=words.device)
    return (((words.unsqueeze(2) >> bits) & 1) * 2 - 1).flatten(1)


def _check(keys: Tensor, counters: Tensor, count: int) -> None:
    if keys.dim() != 2 or keys.shape[1] != 2 or keys.dtype != torch.int64:
        raise ValueError(f"keys must be int64 [n, 2], not {keys.dtype} {list(keys.shape)}")
    if counters.shape != keys.shape[:1] or counters.dtype != torch.int64:
        raise ValueError(f"counters must be int64 [{len(keys)}], not {counters.dtype} {list(counters.shape)}")
    if count < 0:
        raise ValueError(f"count must not be negative, and is {count}")


def _floating(dtype: object) -> torch.dtype:
    if dtype is torch.float32 or dtype is torch.float64:
        return dtype
    raise TypeError(f"random numbers are drawn in torch.float32 or torch.float64, not {dtype}")


def uniform(keys: Tensor, counters: Tensor, count: int, dtype: object) -> Tensor:
    """Numbers in [0, 1), [n, count]: multiples of 2**-24 in float32, of 2**-53 in float64.

    Args:
        keys: int64 [n, 2], every sample's two 32-bit words.
        counters: int64 [n], every sample's call number.
        count: How many numbers per sample.
        dtype: torch.float32 or torch.float64.

    Raises:
        TypeError: Another dtype.
        ValueError: Keys or counters of another shape or dtype, or a negative count.
    """
    _check(keys, counters, count)
    if _floating(dtype) is torch.float32:
        return _uniform_single(_words(keys, counters, count))
    return _uniform_double(_words(keys, counters, 2 * count))


def normal(keys: Tensor, counters: Tensor, count: int, dtype: object) -> Tensor:
    """Standard normal numbers [n, count] (Box and Muller 1958), always finite.

    Drawn in float64 and rounded to `dtype`: the same numbers in both precisions. Arguments and errors as in
    `uniform`.
    """
    _check(keys, counters, count)
    floating = _floating(dtype)
    words = _words(keys, counters, 4 * ((count + 1) // 2))
    return _normal(words)[:, :count].to(floating)


def integers(keys: Tensor, counters: Tensor, count: int, low: int, high: int) -> Tensor:
    """Whole numbers in [low, high), int64 [n, count], by multiply and shift (Lemire 2019).

    A number's probability is off by at most 2**-32. Arguments and errors as in `uniform`, and

    Raises:
        ValueError: Not 1 <= high - low <= 2**31.
    """
    _check(keys, counters, count)
    if not 1 <= high - low <= 2**31:
        raise ValueError(f"integers need 1 <= high - low <= 2**31, not [{low}, {high})")
    return _integers(_words(keys, counters, count), high - low) + low


def signs(keys: Tensor, counters: Tensor, count: int, dtype: object) -> Tensor:
    """-1 or +1 with equal probability, [n, count], a bit of the stream each.

    Arguments and errors as in `uniform`.
    """
    _check(keys, counters, count)
    floating = _floating(dtype)
    words = _words(keys, counters, (count + 31) // 32)
    return _signs(words)[:, :count].to(floating)
