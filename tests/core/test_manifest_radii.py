from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask.errors import MisuseError, UserError
from unmask.manifest.radii import parse_radii


def test_text_fractions_are_exact() -> None:
    assert parse_radii(["8/255"]) == (8 / 255,)
    assert parse_radii([" 16 / 255 ", "0", "0.03", 1, 0.5, "+2e-3"]) == (0.0, 0.002, 0.03, 16 / 255, 0.5, 1.0)


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_every_fraction_is_the_float_division(above: int, below: int) -> None:
    assert parse_radii([f"{above}/{below}"]) == (above / below,)


def test_arrays_and_tensors_are_lists_of_numbers() -> None:
    assert parse_radii(np.array([0.5, 0.25])) == (0.25, 0.5)
    assert parse_radii(torch.tensor([0.5, 0.25])) == (0.25, 0.5)
    assert all(type(radius) is float for radius in parse_radii(np.array([1, 2])))


def test_negative_zero_is_zero() -> None:
    assert math.copysign(1.0, parse_radii([-0.0])[0]) == 1.0


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ([-0.1], ["epsilons[0]", "-0.1", "negative"]),
        (["-8/255"], ["-8/255", "negative"]),
        ([0.1, float("nan")], ["epsilons[1]", "nan", "finite"]),
        ([float("inf")], ["inf", "finite"]),
        (["nan"], ["nan", "fraction"]),
        (["eight"], ["eight", "8/255"]),
        (["8/0"], ["8/0", "zero"]),
        (["1e999"], ["1e999", "finite"]),
        (["1e999999999"], ["1e999999999"]),
        (["8/255/2"], ["8/255/2"]),
        ([""], ["''"]),
        (["8/255", 8 / 255], ["epsilons[1]", "already", "keep one"]),
        ([], ["empty", "8/255"]),
    ],
)
def test_refused_in_words(values: list[object], parts: list[str]) -> None:
    with pytest.raises(UserError) as refusal:
        parse_radii(values)
    for part in parts:
        assert part in str(refusal.value)


@pytest.mark.parametrize("values", ["8/255", 0.5, None, [True], [None], [[0.1]], np.zeros((2, 2))])
def test_wrong_types_are_refused(values: object) -> None:
    with pytest.raises(MisuseError):
        parse_radii(values)  # type: ignore[arg-type]


@given(
    st.lists(
        st.one_of(st.text(max_size=12), st.floats(), st.integers(), st.booleans(), st.none()), max_size=4
    )
)
def test_sorted_finite_and_not_negative_or_refused(values: list[object]) -> None:
    try:
        radii = parse_radii(values)
    except UserError:
        return
    assert len(radii) == len(values)
    assert list(radii) == sorted(set(radii))
    assert all(math.isfinite(radius) and radius >= 0 for radius in radii)
