"""Random numbers against the published vectors, a big-integer reference, and their distributions."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from unmask_kernels import philox

WORD = st.integers(0, 2**32 - 1)

# Salmon et al. 2011: the known-answer vectors of Philox4x32-10 (counter, key, result).
PUBLISHED = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def reference(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """The paper's definition, in integers of any size."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b % 2**32, (a >> 32) ^ c[3] ^ k[1], a % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return tuple(c)


def streams(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randint(0, 2**32, (n, 2), generator=generator),
        torch.randint(0, 2**40, (n,), generator=generator),
    )


@pytest.mark.parametrize(("counter", "key", "words"), PUBLISHED)
def test_published_vectors(counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]) -> None:
    assert reference(counter, key) == words
    assert tuple(philox.philox4x32(torch.tensor([counter]), torch.tensor([key]))[0].tolist()) == words


@settings(max_examples=50, deadline=None)
@given(st.tuples(WORD, WORD, WORD, WORD), st.tuples(WORD, WORD))
def test_equals_the_definition(counter: tuple[int, ...], key: tuple[int, ...]) -> None:
    assert tuple(philox.philox4x32(torch.tensor([counter]), torch.tensor([key]))[0].tolist()) == reference(
        counter, key
    )


def test_draws_are_the_words_of_key_block_and_call() -> None:
    keys, calls = streams(3)
    words = [
        [word for block in range(3) for word in reference((block, 0, call % 2**32, call >> 32), tuple(key))]
        for key, call in zip(keys.tolist(), calls.tolist(), strict=True)
    ]
    expected = torch.tensor([[(word >> 8) / 2**24 for word in row][:10] for row in words])
    assert torch.equal(philox.uniform(keys, calls, 10, torch.float32), expected)
    wide = torch.tensor(
        [
            [((a >> 5) * 2**26 + (b >> 6)) / 2**53 for a, b in zip(r[::2], r[1::2], strict=True)]
            for r in words
        ],
        dtype=torch.float64,
    )
    assert torch.equal(philox.uniform(keys, calls, 6, torch.float64), wide)
    whole = torch.tensor([[-5 + (word * 13 >> 32) for word in row] for row in words])
    assert torch.equal(philox.integers(keys, calls, 12, -5, 8), whole)
    bits = torch.tensor([[2.0 * (row[j // 32] >> (j % 32) & 1) - 1 for j in range(70)] for row in words])
    assert torch.equal(philox.signs(keys, calls, 70, torch.float32), bits)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 70), st.integers(0, 70), st.integers(0, 1000))
def test_a_short_draw_begins_a_long_one(short: int, more: int, seed: int) -> None:
    keys, calls = streams(2, seed)
    for dtype in (torch.float32, torch.float64):
        for draw in (philox.uniform, philox.normal, philox.signs):
            long = draw(keys, calls, short + more, dtype)
            assert long.shape == (2, short + more)
            assert long.dtype == dtype
            assert torch.equal(draw(keys, calls, short, dtype), long[:, :short])
    long = philox.integers(keys, calls, short + more, 0, 7)
    assert torch.equal(philox.integers(keys, calls, short, 0, 7), long[:, :short])


def test_a_sample_draws_the_same_in_any_batch() -> None:
    keys, calls = streams(7)
    order = torch.tensor([4, 1, 6])
    for draw in (philox.uniform, philox.normal, philox.signs):
        assert torch.equal(
            draw(keys, calls, 9, torch.float32)[order],
            draw(keys[order], calls[order], 9, torch.float32),
        )


def test_keys_and_calls_all_matter() -> None:
    base = torch.zeros((1, 2), dtype=torch.int64)
    call = torch.zeros(1, dtype=torch.int64)
    draws = [
        philox.uniform(base, call, 8, torch.float64),
        philox.uniform(base + torch.tensor([1, 0]), call, 8, torch.float64),
        philox.uniform(base + torch.tensor([0, 1]), call, 8, torch.float64),
        philox.uniform(base, call + 1, 8, torch.float64),
        philox.uniform(base, call + 2**32, 8, torch.float64),
    ]
    assert len({tuple(draw[0].tolist()) for draw in draws}) == 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distributions(dtype: torch.dtype) -> None:
    keys, calls = streams(50, seed=3)
    unit = philox.uniform(keys, calls, 2000, dtype)
    assert unit.min() >= 0
    assert unit.max() < 1
    assert stats.kstest(unit.flatten().double().numpy(), "uniform").pvalue > 1e-3
    gauss = philox.normal(keys, calls, 2000, dtype).flatten().double().numpy()
    assert stats.kstest(gauss, "norm").pvalue > 1e-3
    assert abs(stats.kurtosis(gauss)) < 0.06
    odd = philox.normal(keys, calls, 2001, dtype)
    pairs = torch.corrcoef(torch.stack([odd[:, 0:2000:2].flatten(), odd[:, 1:2000:2].flatten()]))
    assert abs(pairs[0, 1]) < 0.02
    coins = philox.signs(keys, calls, 2000, dtype)
    assert set(coins.unique().tolist()) == {-1.0, 1.0}
    assert abs(coins.double().mean()) < 4 / math.sqrt(coins.numel())
    dice = philox.integers(keys, calls, 2000, 1, 7)
    assert stats.chisquare(torch.bincount(dice.flatten())[1:].numpy()).pvalue > 1e-3


def test_normal_numbers_are_finite_at_the_ends_of_the_words() -> None:
    ends = torch.tensor([[0, 0, 0, 0], [2**32 - 1] * 4])
    numbers = philox._normal(ends)
    assert numbers.isfinite().all()
    assert numbers.abs().max() == pytest.approx(math.sqrt(2 * 53 * math.log(2)))


def test_normal_numbers_are_the_same_in_both_precisions() -> None:
    keys, calls = streams(4)
    wide = philox.normal(keys, calls, 9, torch.float64)
    assert torch.equal(philox.normal(keys, calls, 9, torch.float32), wide.float())


def test_integers_reach_both_ends_of_the_widest_range() -> None:
    keys, calls = streams(1)
    draws = philox.integers(keys, calls, 1000, -(2**30), 2**30)
    assert draws.min() >= -(2**30)
    assert draws.max() < 2**30
    assert draws.max() - draws.min() > 2**30
    assert torch.equal(philox.integers(keys, calls, 5, 3, 4), torch.full((1, 5), 3))


def test_bad_arguments_are_refused() -> None:
    keys, calls = streams(2)
    with pytest.raises(TypeError, match=r"float32 or torch.float64, not torch.float16"):
        philox.uniform(keys, calls, 1, torch.float16)
    with pytest.raises(ValueError, match=r"keys must be int64 \[n, 2\]"):
        philox.uniform(keys.float(), calls, 1, torch.float32)
    with pytest.raises(ValueError, match=r"counters must be int64 \[2\]"):
        philox.normal(keys, calls[:1], 1, torch.float32)
    with pytest.raises(ValueError, match="negative"):
        philox.signs(keys, calls, -1, torch.float32)
    for low, high in ((3, 3), (4, 3), (0, 2**31 + 1)):
        with pytest.raises(ValueError, match="high - low"):
            philox.integers(keys, calls, 1, low, high)
