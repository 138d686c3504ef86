"""Distortion, curves, calibration, certificates and paired comparisons, counted by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unmask import statistics
from unmask.dimensions import Status
from unmask.errors import UserError
from unmask.results import CellOutcome
from unmask.results.pairing import compare_paired

Make = Callable[..., xr.Dataset]
MakeCell = Callable[..., CellOutcome]

CLEAN = [1, 1, 1, 1, 0]


@pytest.fixture
def ladder(make_results: Make) -> xr.Dataset:
    """Sample 0 falls at 0.1, 1 at 0.2, 2 at 0.4, 3 never; 4 is a clean error."""
    return make_results(
        {"m": CLEAN},
        {
            ("m", "pgd", 0.1): [0, 1, 1, 1, 0],
            ("m", "pgd", 0.2): [0, 0, 1, 1, 0],
            ("m", "pgd", 0.4): [0, 0, 0, 1, 0],
        },
    )


def test_distortion_by_bisection_over_the_radii(ladder: xr.Dataset) -> None:
    each = ladder.unmask.distortions().sel(model="m", attack="pgd")
    assert each.values.tolist() == [0.1, 0.2, 0.4, np.inf, 0.0]
    assert each.attrs["units"] == "pixel value"
    found = ladder.unmask.minimal_distortion().sel(model="m", attack="pgd")
    assert float(found["median"]) == 0.2 and float(found["count"]) == 4 and float(found["samples"]) == 5
    assert float(found["mean"]) == pytest.approx((0.1 + 0.2 + 0.4 + 0) / 4)
    assert float(found["quantiles"].sel(quantile=0.9)) == np.inf
    own = ladder.unmask.minimal_distortion(over="clean-correct").sel(model="m", attack="pgd")
    assert float(own["count"]) == 3 and float(own["samples"]) == 4
    assert float(own["mean"]) == pytest.approx(0.7 / 3) and float(own["median"]) == pytest.approx(0.3)
    with pytest.raises(UserError, match="clean-correct"):
        ladder.unmask.minimal_distortion(over="clean")
    with pytest.raises(UserError, match="between 0 and 1"):
        ladder.unmask.minimal_distortion(quantiles=[50])


def test_distortion_of_a_nearest_search_is_its_distance(make_results: Make, make_cell: MakeCell) -> None:
    distance = [0.03, 0.25, np.inf, 0.0]
    cells = {
        ("m", "pgd", e): make_cell([float(d > e) for d in distance], distance=distance) for e in (0.1, 0.2)
    }
    ds = make_results({"m": [1, 1, 1, 0]}, cells)
    ds = ds.assign_coords(search=("attack", np.array(["nearest"], dtype=object)))
    assert ds.unmask.distortions().values.ravel().tolist() == distance
    assert ds.unmask.minimal_distortion()["median"].item() == pytest.approx(0.14)


def test_distortion_is_unknown_where_a_cell_is_not_whole(make_results: Make) -> None:
    ds = make_results(
        {"m": CLEAN}, {("m", "pgd", 0.1): [1] * 5, ("m", "pgd", 0.2): CellOutcome.failed(5, "boom")}
    )
    found = ds.unmask.minimal_distortion()
    assert np.isnan(found["median"]).all() and np.isnan(found["mean"]).all()
    assert np.isnan(ds.unmask.area_under_curve()).all()


def test_area_under_the_curve(ladder: xr.Dataset, make_results: Make) -> None:
    curve = ladder.unmask.curve().sel(model="m", attack="pgd")
    assert curve["epsilon"].values.tolist() == [0.0, 0.1, 0.2, 0.4]
    assert curve.values.tolist() == [0.8, 0.6, 0.4, 0.2]
    area = (0.7 * 0.1 + 0.5 * 0.1 + 0.3 * 0.2) / 0.4
    assert ladder.unmask.area_under_curve().item() == pytest.approx(area)
    assert ladder.unmask.area_under_curve(suite=True).item() == pytest.approx(area)
    rising = make_results({"m": [1, 1]}, {("m", "pgd", 0.1): [0, 0], ("m", "pgd", 0.2): [1, 0]})
    assert rising.unmask.area_under_curve().item() == pytest.approx((0.5 * 0.1 + 0.25 * 0.1) / 0.2)
    assert rising.unmask.area_under_curve("monotone").item() == pytest.approx(0.25)
    with pytest.raises(UserError, match="Did you mean 'monotone'"):
        rising.unmask.area_under_curve("monoton")
    with pytest.raises(UserError, match="above zero"):
        make_results({"m": [1]}, {("m", "pgd", 0.0): [1]}).unmask.area_under_curve()


def with_confidence(make_results: Make, make_cell: MakeCell, make_clean: Callable[..., object]) -> xr.Dataset:
    """Four samples and three classes, with probabilities written out."""
    p = np.array([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.05, 0.05, 0.9], [0.5, 0.3, 0.2]])
    label = np.arange(4) % 10  # sample 3 has a class that the model does not know well: its last
    own = np.array([p[0, 0], p[1, 1], p[2, 2], p[3, 2]])
    fields = {
        "confidence": p.max(1),
        "label_probability": own,
        "squared_probability": (p**2).sum(1),
    }
    assert label.tolist() == [0, 1, 2, 3]
    correct = [1, 1, 1, 0]
    return make_results({"m": make_clean(correct, **fields)}, {("m", "pgd"): make_cell(correct, **fields)})


def test_calibration_by_hand(
    make_results: Make, make_cell: MakeCell, make_clean: Callable[..., object]
) -> None:
    of = with_confidence(make_results, make_cell, make_clean).unmask
    brier = [0.3**2 + 0.2**2 + 0.1**2, 0.25**2 + 0.45**2 + 0.2**2, 0.05**2 * 2 + 0.1**2, 0.25 + 0.09 + 0.64]
    loss = -np.log([0.7, 0.55, 0.9, 0.2])
    for examples in ("final", "clean"):
        assert of.brier_score(examples).item() == pytest.approx(np.mean(brier))
        assert of.negative_log_likelihood(examples).item() == pytest.approx(loss.mean())
        assert of.mean_confidence(examples).item() == pytest.approx((0.7 + 0.55 + 0.9 + 0.5) / 4)
    # Two bins: (0, 0.5] holds the wrong one at 0.5, (0.5, 1] the three right ones.
    right = (0.7 + 0.55 + 0.9) / 3
    error = of.calibration_error(bins=2)
    assert error.item() == pytest.approx(0.25 * 0.5 + 0.75 * (1 - right))
    assert error.attrs["bins"] == 2 and "right-closed" in error.attrs["binning"]
    assert of.calibration_error(2, "clean").dims == ("model",)
    parts = of.reliability(2).sel(model="m", attack="pgd", epsilon=0.1)
    assert parts["count"].values.tolist() == [1, 3] and parts["accuracy"].values.tolist() == [0, 1]
    interval = of.interval("brier_score", "t")
    assert interval["lower"].item() == pytest.approx(statistics.t_interval_of_mean(brier).lower)
    with pytest.raises(UserError, match="no proportion"):
        of.interval("negative_log_likelihood")
    for wrong in (0, 1.5, True):
        with pytest.raises(UserError, match="whole number"):
            of.calibration_error(bins=wrong)
    with pytest.raises(UserError, match="examples"):
        of.brier_score("attacked")


def test_a_calibrated_model_has_no_error(make_results: Make, make_cell: MakeCell) -> None:
    ds = make_results({"m": [1] * 4}, {("m", "pgd"): make_cell([1, 1, 1, 0], confidence=[0.75] * 4)})
    assert ds.unmask.calibration_error().item() == 0
    with pytest.raises(UserError, match="label_probability"):
        ds.unmask.brier_score()


def test_a_vanishing_probability_has_a_finite_loss(make_results: Make, make_cell: MakeCell) -> None:
    part = make_cell([0], label_probability=[0.0], squared_probability=[1.0], confidence=[1.0])
    ds = make_results({"m": [1]}, {("m", "pgd"): part})
    assert ds.unmask.negative_log_likelihood().item() == pytest.approx(744.44, abs=0.01)
    assert ds.unmask.brier_score().item() == 2


def test_failed_cells_have_no_calibration(make_results: Make) -> None:
    ds = make_results({"m": [1]}, {("m", "pgd"): CellOutcome.failed(1, "boom")})
    assert np.isnan(ds.unmask.calibration_error()).all() and np.isnan(ds.unmask.mean_confidence()).all()
    assert int(ds.unmask.reliability()["count"].sum()) == 0


def test_certified_accuracy(make_results: Make) -> None:
    ds = make_results({"m": [1] * 4}, {("m", "pgd"): [1] * 4})
    with pytest.raises(UserError, match="certified-radius"):
        ds.unmask.certified_accuracy()
    ds = ds.assign(
        certified_radius=(("model", "sample"), [[0.4, 0.2, np.nan, 0.3]]),
        certified_prediction=(("model", "sample"), [[0, 1, -1, 9]]),
    )
    found = ds.unmask.certified_accuracy([0.0, 0.2, 0.3, 1.0])
    assert found.dims == ("model", "radius") and found.values.tolist() == [[0.5, 0.5, 0.25, 0.0]]
    assert found["numerator"].values.tolist() == [[2, 2, 1, 0]]
    assert ds.unmask.certified_accuracy()["radius"].values[-1] == 0.4
    assert ds.assign_attrs(norm="l2").unmask.certified_accuracy()["radius"].values.tolist() == [0.1]
    with pytest.raises(UserError, match="negative"):
        ds.unmask.certified_accuracy([-1.0])


def test_comparing_two_models_and_two_attacks(make_results: Make) -> None:
    ds = make_results(
        {"a": [1] * 10, "b": [1] * 10},
        {
            ("a", "pgd"): [1] * 8 + [0] * 2,
            ("b", "pgd"): [0] * 7 + [1] + [0, 0],
            ("a", "square"): [1] * 10,
            ("b", "square"): CellOutcome.failed(10, "boom"),
        },
    )
    found = ds.unmask.compare("a", "b")
    here = found.sel(attack="pgd", epsilon=0.1)
    assert float(here["difference"]) == pytest.approx(0.7)
    assert float(here["only_first"]) == 7 and float(here["only_second"]) == 0
    assert float(here["p_value"]) == pytest.approx(stats.binomtest(7, 7).pvalue)
    assert float(here["lower"]) <= 0.7 <= float(here["upper"])
    assert found["test"].sel(attack="pgd", epsilon=0.1).item() == "McNemar, exact"
    gone = found.sel(attack="square", epsilon=0.1)
    assert np.isnan(gone["difference"]) and float(gone["samples"]) == 0
    attacks = ds.unmask.compare("square", "pgd", of="attack").sel(model="a", epsilon=0.1)
    assert float(attacks["difference"]) == pytest.approx(0.2)
    with pytest.raises(UserError, match="Did you mean 'pgd'"):
        ds.unmask.compare("pgb", "square", of="attack")
    with pytest.raises(UserError, match="of"):
        ds.unmask.compare("a", "b", of="sample")


@given(st.integers(1, 60), st.integers(0, 2**20), st.floats(0.5, 0.999))
@settings(max_examples=40, deadline=None)
def test_laws_of_paired_comparison(n: int, seed: int, level: float) -> None:
    random = np.random.default_rng(seed)
    a, b = random.integers(0, 2, n).astype(float), random.integers(0, 2, n).astype(float)
    one, two = compare_paired(a, b, level), compare_paired(b, a, level)
    assert one.difference == -two.difference and one.p_value == two.p_value
    assert (one.lower, one.upper) == pytest.approx((-two.upper, -two.lower))
    assert -1 <= one.lower <= one.difference <= one.upper <= 1
    same = compare_paired(a, a, level)
    assert same.difference == 0 and same.p_value == 1 and same.lower <= 0 <= same.upper


def test_paired_comparison_of_probabilities() -> None:
    a, b = np.full(50, 0.9), np.full(50, 0.9)
    assert compare_paired(a, b).p_value == 1
    b = b - np.linspace(0.1, 0.3, 50)
    found = compare_paired(a, b)
    assert found.p_value < 0.001 and 0.1 < found.lower < 0.2 < found.upper < 0.3
    assert np.isnan(found.only_first) and "sign flips" in found.test
    with pytest.raises(UserError, match="same samples"):
        compare_paired(a, b[:3])


def test_status_of_known_samples_alone_counts(make_results: Make, make_cell: MakeCell) -> None:
    part = make_cell([0, np.nan], status=[0, Status.FAILED], confidence=[0.9, np.nan])
    ds = make_results({"m": [1, 1]}, {("m", "pgd"): part})
    assert np.isnan(ds.unmask.mean_confidence()).all()
