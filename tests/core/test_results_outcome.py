"""Outcomes hold one row per sample, whatever is done to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.dimensions import Status
from unmask.results import CellOutcome, CleanOutcome


def test_unknown_outcomes() -> None:
    failed, absent = CellOutcome.failed(3, "boom", seconds=2.0), CellOutcome.not_run(2, "no front end")
    assert (failed.status == Status.FAILED).all() and (absent.status == Status.NOT_RUN).all()
    assert np.isnan(failed.correct).all() and (failed.prediction == -1).all()
    assert (failed.message, failed.seconds, absent.message) == ("boom", 2.0, "no front end")
    assert not failed.finished and not absent.finished


def test_dtypes(make_cell: Callable[..., CellOutcome]) -> None:
    outcome = make_cell([1, 0], adversarial=np.zeros((2, 1, 2, 2)))
    assert outcome.correct.dtype == np.float64
    assert outcome.prediction.dtype == np.int64
    assert outcome.status.dtype == np.int8
    assert outcome.adversarial is not None and outcome.adversarial.dtype == np.float32
    assert outcome.finished


def test_lengths_must_agree(make_cell: Callable[..., CellOutcome]) -> None:
    with pytest.raises(ValueError, match="one row per sample"):
        make_cell([1, 0], margin=np.zeros(3))


def test_what_is_given_is_copied(make_cell: Callable[..., CellOutcome]) -> None:
    mine = np.array([1.0, 0.0])
    outcome = make_cell(mine)
    mine[:] = 7
    assert outcome.correct.tolist() == [1, 0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.data())
@settings(max_examples=30)
def test_cutting_and_joining_gives_the_same(values: list[float], data: st.DataObject) -> None:
    n = len(values)
    cut = data.draw(st.integers(0, n))
    clean = CleanOutcome(values, values, range(n), values, values)  # type: ignore[arg-type]
    joined = CleanOutcome.concatenate([clean.select(np.arange(cut)), clean.select(np.arange(cut, n))])
    for name, array in clean.arrays().items():
        assert np.array_equal(joined.arrays()[name], array)


def test_joining_adds_seconds_and_keeps_messages(make_cell: Callable[..., CellOutcome]) -> None:
    kept = make_cell([1, 0], adversarial=np.ones((2, 1, 2, 2)))
    whole = CellOutcome.concatenate([kept, CellOutcome.failed(1, "boom"), CellOutcome.failed(1, "boom")])
    assert len(whole) == 4 and whole.seconds == 1.5 and whole.message == "boom"
    assert whole.adversarial is not None
    assert np.isfinite(whole.adversarial[:2]).all() and np.isnan(whole.adversarial[2:]).all()
    assert not whole.finished
    with pytest.raises(ValueError, match="nothing"):
        CellOutcome.concatenate([])
