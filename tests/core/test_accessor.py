"""Measures of hand-made results, counted by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from unmask import statistics
from unmask.dimensions import Status
from unmask.errors import UserError
from unmask.results import CellOutcome

Make = Callable[..., xr.Dataset]
MakeCell = Callable[..., CellOutcome]

CLEAN = [1, 1, 1, 1, 0]
PGD = [1, 0, 0, 1, 0]
SQUARE = [0, 1, 0, 1, 0]


@pytest.fixture
def results(make_results: Make) -> xr.Dataset:
    return make_results({"m": CLEAN}, {("m", "pgd"): PGD, ("m", "square"): SQUARE})


def at(array: xr.DataArray, **place: object) -> float:
    return float(array.sel(model="m", epsilon=0.1, **place))


def test_by_hand(results: xr.Dataset) -> None:
    assert results.unmask.clean_accuracy().item() == 0.8
    assert at(results.unmask.robust_accuracy(), attack="pgd") == 0.4
    assert at(results.unmask.conditional_robust_accuracy(), attack="pgd") == 0.5
    assert at(results.unmask.attack_success_rate(), attack="pgd") == 0.5
    assert at(results.unmask.attack_success_rate(over="all"), attack="pgd") == 0.4
    assert at(results.unmask.gap(), attack="pgd") == pytest.approx(0.4)
    assert at(results.unmask.worst_case()) == 0.2
    worst = results.unmask.worst_attack().sel(model="m", epsilon=0.1)
    assert worst.values.tolist() == ["square", "pgd", "pgd", "", ""]


def test_counts_units_and_dimensions(results: xr.Dataset) -> None:
    rate = results.unmask.conditional_robust_accuracy()
    assert rate.dims == ("model", "attack", "epsilon")
    assert at(rate["numerator"], attack="pgd") == 2 and at(rate["denominator"], attack="pgd") == 4
    for array in (
        rate,
        results.unmask.robust_accuracy(),
        results.unmask.attack_success_rate(),
        results.unmask.attack_success_rate("all"),
        results.unmask.gap(),
    ):
        assert array.dims == ("model", "attack", "epsilon")
        assert array.attrs["units"] == "1" and array.attrs["long_name"]
    assert results.unmask.clean_accuracy().dims == ("model",)
    assert results.unmask.worst_case().dims == ("model", "epsilon")
    assert results.unmask.worst_attack().dims == ("model", "epsilon", "sample")


def test_nothing_clean_correct(make_results: Make) -> None:
    ds = make_results({"m": [0, 0]}, {("m", "pgd"): [0, 0]})
    rate = ds.unmask.conditional_robust_accuracy()
    assert np.isnan(at(rate, attack="pgd")) and at(rate["denominator"], attack="pgd") == 0
    assert np.isnan(at(ds.unmask.attack_success_rate(), attack="pgd"))
    assert at(ds.unmask.robust_accuracy(), attack="pgd") == 0


def test_failed_cells_have_no_rate_and_bound_the_worst_case(make_results: Make, make_cell: MakeCell) -> None:
    part = make_cell([0, np.nan, 1, 1, 0], status=[0, Status.FAILED, 0, 0, 1])
    ds = make_results({"m": CLEAN}, {("m", "pgd"): part, ("m", "square"): SQUARE})
    for measure in ("robust_accuracy", "conditional_robust_accuracy", "attack_success_rate", "gap"):
        rate = getattr(ds.unmask, measure)()
        assert np.isnan(at(rate, attack="pgd")) and not np.isnan(at(rate, attack="square"))
        for method in ("clopper-pearson", "bootstrap", "t"):
            interval = ds.unmask.interval(measure, method)
            assert np.isnan(at(interval["lower"], attack="pgd"))
            assert not np.isnan(at(interval["lower"], attack="square"))
    # What the failed attack did find still counts: sample 0 is broken by it and by square, 1 only unknown.
    assert at(ds.unmask.worst_case()) == 0.4
    assert bool(ds.unmask.worst_case()["upper_bound"].item())


def test_attacks_that_were_not_run_are_left_out(make_results: Make) -> None:
    ds = make_results(
        {"m": CLEAN}, {("m", "pgd"): PGD, ("m", "bpda"): CellOutcome.not_run(5, "no front end")}
    )
    assert np.isnan(at(ds.unmask.robust_accuracy(), attack="bpda"))
    assert at(ds.unmask.worst_case()) == 0.4
    assert not ds.unmask.worst_case()["upper_bound"].any()
    nothing = make_results({"m": CLEAN}, {("m", "pgd"): CellOutcome.failed(5, "boom")})
    assert np.isnan(at(nothing.unmask.worst_case()))
    assert nothing.unmask.worst_attack().values.ravel().tolist() == [""] * 5


def test_a_coin_keeps_its_probability(make_results: Make, make_cell: MakeCell) -> None:
    """However many attacks are thrown at it, choosing the worst by luck adds no luck to the score."""
    random, n, draws = np.random.default_rng(0), 2000, 20
    names = ["pgd", "fgsm", "square", "bpda", "transfer"]

    def draw() -> np.ndarray:  # type: ignore[type-arg]
        return random.binomial(draws, 0.9, n) / draws

    cells = {("m", name): make_cell(draw(), screening=draw()) for name in names}
    ds = make_results({"m": draw()}, cells, randomness={"m": "drawn"})
    error = 4 * np.sqrt(0.9 * 0.1 / (n * draws))
    assert at(ds.unmask.worst_case()) == pytest.approx(0.9, abs=error)
    # The naive minimum would have been far below.
    assert float(ds["correct"].min("attack").mean()) < 0.85


def test_enumerated_members_score_exactly(make_results: Make) -> None:
    ds = make_results({"m": [2 / 3, 1]}, {("m", "pgd"): [1 / 3, 2 / 3]}, randomness={"m": "enumerated"})
    assert at(ds.unmask.robust_accuracy(), attack="pgd") == pytest.approx(0.5)
    conditional = ds.unmask.conditional_robust_accuracy()
    assert at(conditional, attack="pgd") == pytest.approx((2 / 3 * 1 / 3 + 2 / 3) / (5 / 3))


outcomes = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 1), min_size=n, max_size=n),
        st.lists(st.lists(st.integers(0, 1), min_size=n, max_size=n), min_size=1, max_size=3),
    )
)


@given(outcomes)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_laws_of_the_measures(make_results: Make, drawn: tuple[list[int], list[list[int]]]) -> None:
    clean, attacks = drawn
    names = ("pgd", "fgsm", "square")
    cells = {("m", name): np.minimum(clean, a) for name, a in zip(names, attacks, strict=False)}
    ds = make_results({"m": clean}, cells)
    robust, worst = ds.unmask.robust_accuracy(), ds.unmask.worst_case()
    assert at(worst) == np.min(list(cells.values()), axis=0).mean()
    assert at(worst) <= float(robust.min()) <= float(robust.max()) <= ds.unmask.clean_accuracy().item()
    assert np.allclose(ds.unmask.gap(), ds.unmask.attack_success_rate("all"))
    total = ds.unmask.conditional_robust_accuracy() + ds.unmask.attack_success_rate()
    assert total.isnull().all() if not any(clean) else np.allclose(total, 1)
    named = ds.unmask.worst_attack().values.ravel() != ""
    assert (named == (np.array(clean) > ds["correct"].min("attack").values.ravel())).all()
    # The order of the attacks changes no number.
    turned = ds.isel(attack=slice(None, None, -1))
    assert at(turned.unmask.worst_case()) == at(worst)


def test_intervals(make_results: Make) -> None:
    right = np.r_[np.ones(454), np.zeros(46)]
    ds = make_results({"m": np.ones(500)}, {("m", "pgd"): right, ("m", "square"): np.zeros(500)})
    interval = ds.unmask.interval()
    assert interval.attrs == {"measure": "robust_accuracy", "method": "clopper-pearson", "level": 0.99}
    assert set(interval.data_vars) == {"lower", "upper"}
    assert interval["lower"].dims == ("model", "attack", "epsilon")
    assert at(interval["lower"], attack="pgd") == pytest.approx(0.86970, abs=5e-6)
    assert at(interval["upper"], attack="pgd") == pytest.approx(0.93827, abs=5e-6)
    assert at(interval["upper"], attack="square") == pytest.approx(0.01054, abs=5e-6)
    assert at(interval["numerator"], attack="pgd") == 454
    expected = stats.t.interval(0.95, 499, right.mean(), stats.sem(right))
    found = ds.unmask.interval(method="t", level=0.95)
    assert (at(found["lower"], attack="pgd"), at(found["upper"], attack="pgd")) == pytest.approx(expected)
    wilson = ds.unmask.interval(method="wilson").sel(attack="pgd")
    assert (wilson["lower"].item(), wilson["upper"].item()) == pytest.approx(statistics.wilson(454, 500))
    boot = ds.unmask.interval(method="bootstrap").sel(attack="pgd")
    assert boot["lower"].item() < 0.908 < boot["upper"].item()
    assert ds.unmask.interval("clean_accuracy")["upper"].item() == 1.0
    assert ds.unmask.interval("worst_case")["lower"].dims == ("model", "epsilon")


def test_conditional_t_interval_is_that_of_the_clean_correct_samples(results: xr.Dataset) -> None:
    found = results.unmask.interval("conditional_robust_accuracy", "t").sel(attack="pgd")
    expected = statistics.t_interval_of_mean(PGD[:4])
    assert (found["lower"].item(), found["upper"].item()) == pytest.approx(expected)


def test_a_negative_gap_is_no_proportion(make_results: Make) -> None:
    ds = make_results({"m": [0.5, 0.5]}, {("m", "pgd"): [0.6, 0.3]}, randomness={"m": "drawn"})
    with pytest.raises(UserError, match="'t' or 'bootstrap'"):
        ds.unmask.interval("gap")
    assert ds.unmask.interval("gap", "t")["lower"].item() < 0


def test_misspellings(results: xr.Dataset) -> None:
    with pytest.raises(UserError, match="Did you mean 'robust_accuracy'"):
        results.unmask.interval("robust_acuracy")
    with pytest.raises(UserError, match="Did you mean 'wilson'"):
        results.unmask.interval(method="wilsen")
    with pytest.raises(UserError, match="clean-correct"):
        results.unmask.attack_success_rate(over="clean")
    with pytest.raises(UserError, match="level"):
        results.unmask.interval(level=99)
    with pytest.raises((UserError, RuntimeError), match="not a result"):
        xr.Dataset({"x": 1}).unmask.robust_accuracy()
