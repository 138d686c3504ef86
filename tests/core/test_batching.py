"""Batch sizes: they change the speed and what fits into memory, never an outcome."""

from __future__ import annotations

import json

import attrs
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import unmask
from unmask.evaluation.batching import (
    QUANTUM,
    BatchSize,
    bucket_for,
    buckets,
    call_sizes,
    padded,
    rows_at_once,
    samples_at_once,
)
from unmask.evaluation.inspection import inspect_model
from unmask.evaluation.oracle import Oracle


def test_buckets_are_powers_of_two_times_the_quantum() -> None:
    assert buckets(256) == [8, 16, 32, 64, 128, 256]
    assert buckets(100) == [8, 16, 32, 64]
    assert [padded(n) for n in (0, 1, 8, 9)] == [8, 8, 8, 16]


@given(st.integers(1, 2000), st.integers(8, 512))
def test_buckets_serve_every_number_of_rows_with_little_filling(rows, limit) -> None:
    sizes = buckets(limit)
    left, calls = rows, 0
    while left > 0:
        size = bucket_for(left, limit)
        assert size in sizes
        assert size - left <= max(size / 4, QUANTUM - 1)
        left, calls = left - size, calls + 1
    assert calls <= rows // sizes[-1] + len(sizes)


@given(st.integers(1, 2000), st.integers(1, 512))
def test_calls_are_few_and_about_as_large(rows, limit) -> None:
    sizes = call_sizes(rows, limit)
    assert sum(sizes) == rows
    assert len(sizes) == -(-rows // limit)
    assert max(sizes) - min(sizes) <= 1


def test_the_fewest_rows_of_a_call_are_what_the_model_needs(known) -> None:
    """Where rows round differently in batches of up to 15, none is asked for."""
    inner, images, labels = known.linear_problem(n=64)

    class Rounding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.seen = inner, []

        def forward(self, images: Tensor) -> Tensor:
            self.seen.append(len(images))
            logits = self.inner(images)
            return logits * (1 + 2**-20) if len(images) < 16 else logits

    model = Rounding().eval()
    facts = inspect_model(model, images, labels)
    assert (facts.members[0].least, facts.members[0].alone) == (16, False)
    model.seen.clear()
    oracle = Oracle(facts, 24)
    for n in (1, 15, 24, 40, 64):
        oracle.answer(facts.members[0], images[:n], None)
    assert model.seen == [16, 16, 24, 20, 20, 22, 21, 21]


def test_large_images_travel_in_small_batches() -> None:
    assert samples_at_once(torch.empty(1, 8, 8)) == 256
    assert samples_at_once(torch.empty(3, 224, 224)) == 6
    assert rows_at_once(torch.empty(3, 32, 32)) == 32
    assert rows_at_once(torch.empty(3, 224, 224)) == 8
    assert samples_at_once(torch.empty(3, 224, 224, device="meta")) == 222


class Small(nn.Module):
    """A linear model on a machine whose memory holds only so many rows."""

    def __init__(self, memory: int, inner: nn.Module) -> None:
        super().__init__()
        self.memory, self.inner, self.seen = memory, inner, []

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > self.memory:
            raise torch.OutOfMemoryError(f"{len(images)} rows do not fit")
        self.seen.append(len(images))
        return self.inner(images)


def test_work_is_halved_until_it_fits_and_stays_so() -> None:
    size = BatchSize(100)
    done: list[slice] = []

    def work(rows: slice) -> slice:
        if rows.stop - rows.start > 30:
            raise torch.OutOfMemoryError("too much")
        done.append(rows)
        return rows

    assert size.run(120, work) == done
    assert [(r.start, r.stop) for r in done] == [(0, 25), (25, 50), (50, 75), (75, 100), (100, 120)]
    assert (size.rows, size.halvings) == (25, 2)


def test_one_row_that_does_not_fit_is_an_error() -> None:
    def work(rows: slice) -> None:
        raise torch.OutOfMemoryError("too much")

    with pytest.raises(torch.OutOfMemoryError):
        BatchSize(4).run(4, work)


@pytest.mark.parametrize("least", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("memory", [0, 1, 3, 4, 7, 8, 9, 16, 31])
def test_halving_comes_to_an_end(known, least, memory) -> None:
    model, images, labels = known.linear_problem(n=20)
    small = Small(memory, model).eval()
    facts = inspect_model(model, images, labels)
    member = attrs.evolve(facts.members[0], module=small, least=least)
    oracle = Oracle(attrs.evolve(facts, members=(member,)), 32)
    if memory < least:
        with pytest.raises(torch.OutOfMemoryError):
            oracle.answer(member, images, None)
    else:
        torch.testing.assert_close(oracle.answer(member, images, None), model(images))


def test_a_forward_call_that_does_not_fit_is_halved(known) -> None:
    model, images, labels = known.linear_problem(n=64)
    small = Small(1000, model).eval()
    oracle = Oracle(inspect_model(small, images, labels), 64)
    small.memory, small.seen = 20, []
    with torch.no_grad():
        answer = oracle.answer(oracle.members[0], images, None)
        oracle.answer(oracle.members[0], images, None)
    torch.testing.assert_close(answer, model(images).detach())
    assert set(small.seen) == {16}


@pytest.mark.parametrize("batch_size", [None, 100])
def test_outcomes_are_the_same_on_a_small_machine(known, batch_size) -> None:
    model, images, labels = known.linear_problem(n=120)
    attacks = {"pgd": unmask.attack("pgd", steps=5), "square": unmask.attack("square", queries=20)}

    def run(memory: int):
        machine = Small(memory, model).eval()
        return unmask.evaluate(machine, images, labels, attacks, [0.05], batch_size=batch_size)

    large, tight = run(10**9), run(48)
    for name in ("correct", "margin", "forwards", "backwards", "status"):
        np.testing.assert_array_equal(large[name], tight[name], err_msg=name)
    record = json.loads(tight.attrs["preparation"])["models"]["model"]
    assert record["halvings"] > 0
    assert not np.isin(tight.status, 6).any()
