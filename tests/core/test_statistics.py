"""Published values first, then what every interval and test must satisfy."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unmask import statistics
from unmask.errors import UserError


@pytest.mark.parametrize(
    ("successes", "n", "lower", "upper"), [(0, 500, 0.0, 0.01054), (454, 500, 0.86970, 0.93827)]
)
def test_clopper_pearson_known_values(successes: int, n: int, lower: float, upper: float) -> None:
    assert statistics.clopper_pearson(successes, n, 0.99) == pytest.approx((lower, upper), abs=5e-6)


@given(st.integers(1, 400), st.data(), st.sampled_from([0.9, 0.95, 0.99]))
@settings(deadline=None, max_examples=40)
def test_binomial_intervals_agree_with_scipy(n: int, data: st.DataObject, level: float) -> None:
    k = data.draw(st.integers(0, n))
    exact = stats.binomtest(k, n).proportion_ci(level, "exact")
    score = stats.binomtest(k, n).proportion_ci(level, "wilson")
    assert statistics.clopper_pearson(k, n, level) == pytest.approx((exact.low, exact.high), abs=1e-9)
    assert statistics.wilson(k, n, level) == pytest.approx((score.low, score.high), abs=1e-9)


@given(st.floats(0, 1), st.floats(0.5, 500), st.floats(0.5, 0.999))
@settings(deadline=None, max_examples=60)
def test_fractional_successes_lie_between_whole_ones(rate: float, n: float, level: float) -> None:
    k = rate * n
    for interval in (statistics.clopper_pearson, statistics.wilson):
        lower, upper = interval(k, n, level)
        assert 0 <= lower <= k / n + 1e-9 and k / n - 1e-9 <= upper <= 1
        assert interval(n - k, n, level) == pytest.approx((1 - upper, 1 - lower), abs=1e-6)


def test_fractions_move_the_ends_steadily() -> None:
    ends = [statistics.clopper_pearson(k / 4, 10) for k in range(41)]
    assert [e.lower for e in ends] == sorted(e.lower for e in ends)
    assert [e.upper for e in ends] == sorted(e.upper for e in ends)


def test_no_trials_say_nothing() -> None:
    assert statistics.clopper_pearson(0, 0) == (0.0, 1.0)
    assert statistics.wilson(0, 0) == (0.0, 1.0)
    assert all(math.isnan(end) for end in statistics.t_interval_of_mean([1.0]))
    assert all(math.isnan(end) for end in statistics.bootstrap_interval([]))


def test_rounding_of_a_sum_is_no_error() -> None:
    assert statistics.clopper_pearson(sum([0.1] * 10) + 1e-12, 1) == statistics.clopper_pearson(1, 1)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: statistics.clopper_pearson(5, 4), "between 0 and 4"),
        (lambda: statistics.clopper_pearson(-1, 4), "between 0 and 4"),
        (lambda: statistics.clopper_pearson(math.nan, 4), "between 0 and 4"),
        (lambda: statistics.wilson(1, math.inf), "finite"),
        (lambda: statistics.wilson(1, 4, 99), "level"),
        (lambda: statistics.t_interval_of_mean([0, 1], 1.0), "level"),
        (lambda: statistics.certified_radius(5, 10, 0.001, 0.0), "sigma"),
        (lambda: statistics.mcnemar_exact([1, 0], [1]), "same samples"),
    ],
)
def test_nonsense_is_refused(call: object, word: str) -> None:
    with pytest.raises(UserError, match=word):
        call()  # type: ignore[operator]


def test_t_interval_is_students() -> None:
    values = np.random.default_rng(0).normal(3, 2, 50)
    expected = stats.t.interval(0.99, 49, values.mean(), stats.sem(values))
    assert statistics.t_interval_of_mean(values) == pytest.approx(expected)
    # Samples of weight zero are not there.
    padded, weights = np.append(values, [100.0, -5.0]), np.append(np.ones(50), [0, 0])
    assert statistics.t_interval_of_mean(padded, weights=weights) == pytest.approx(expected)


def test_bootstrap_covers_as_often_as_it_says() -> None:
    random, hits = np.random.default_rng(1), 0
    for i in range(200):
        lower, upper = statistics.bootstrap_interval(random.random(60), 0.9, seed=i, resamples=500)
        hits += lower <= 0.5 <= upper
    assert stats.binomtest(hits, 200, 0.9).pvalue > 1e-3


def test_bootstrap_is_repeatable_and_leaves_the_global_generator_alone() -> None:
    before = np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    values = [0.0, 0.25, 1.0, 1.0, 0.5]
    first = statistics.bootstrap_interval(values, seed=3)
    assert first == statistics.bootstrap_interval(values, seed=3)
    assert first != statistics.bootstrap_interval(values, 0.5, seed=3)
    assert (np.random.get_state()[1] == before).all()  # type: ignore[index]


@pytest.mark.parametrize(("n", "radius"), [(100, 0.37512), (100_000, 0.95286)])
def test_certified_radius_known_values(n: int, radius: float) -> None:
    assert statistics.certified_radius(n, n, 0.001, 0.25) == pytest.approx(radius, abs=5e-6)


def test_certificate_abstains() -> None:
    assert math.isnan(statistics.certified_radius(52, 100, 0.001, 0.25))
    assert math.isnan(statistics.certified_radius(0, 100, 0.001, 0.25))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40))
@settings(deadline=None, max_examples=50)
def test_mcnemar_is_the_binomial_test(pairs: list[tuple[bool, bool]]) -> None:
    a, b = [p[0] for p in pairs], [p[1] for p in pairs]
    only_a = sum(x and not y for x, y in pairs)
    only_b = sum(y and not x for x, y in pairs)
    found = statistics.mcnemar_exact(a, b)
    assert (found.only_first, found.only_second) == (only_a, only_b)
    if only_a + only_b:
        expected = stats.binomtest(only_a, only_a + only_b).pvalue
        greater = stats.binomtest(only_a, only_a + only_b, alternative="greater").pvalue
    else:
        expected = greater = 1.0
    assert found.p_value == pytest.approx(expected)
    assert statistics.mcnemar_exact(a, b, "greater").p_value == pytest.approx(greater)
    # The sign-flip test is the same test where outcomes are 0 or 1.
    assert statistics.sign_flip_test(np.subtract(a, b, dtype=float)) == pytest.approx(greater)


def test_sign_flips_by_enumeration() -> None:
    d = np.array([0.9, 0.5, 0.4, -0.1, 0.3, 0.7, -0.2])
    signs = np.array(np.meshgrid(*[[-1, 1]] * len(d))).reshape(len(d), -1)
    exact = (d @ signs >= d.sum() - 1e-12).mean()
    assert statistics.sign_flip_test(d, flips=200_000) == pytest.approx(exact, abs=0.002)


def test_sign_flips_seldom_err_on_a_coin() -> None:
    random = np.random.default_rng(2)
    p = [
        statistics.sign_flip_test(
            (random.binomial(100, 0.9, 80) - random.binomial(100, 0.9, 80)) / 100, flips=499
        )
        for _ in range(200)
    ]
    assert sum(value < 0.05 for value in p) <= stats.binom.ppf(0.999, 200, 0.05)
    assert statistics.sign_flip_test([0.0, 0.0]) == 1.0


def test_holm_by_hand() -> None:
    assert statistics.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert statistics.holm([]) == []


def test_import_is_light() -> None:
    code = (
        "import sys, unmask.statistics; print([m for m in ('scipy', 'numpy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_t_interval_of_a_rate_is_that_of_its_zeros_and_ones() -> None:
    outcomes = [1.0] * 37 + [0.0] * 13
    assert statistics.t_interval(37, 50, 0.95) == pytest.approx(statistics.t_interval_of_mean(outcomes, 0.95))
