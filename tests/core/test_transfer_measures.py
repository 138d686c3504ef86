"""Transfer matrices and the randomised ensembles they speak of, against games whose solutions are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import unmask
from unmask.errors import UserError
from unmask.reports.markdown import render_markdown
from unmask.reports.page import render_html
from unmask.reports.structured import report_data
from unmask.results import CellOutcome
from unmask.results.transfer import solve_matrix_game

EPSILON = 8 / 255


def right(share: float, n: int = 10) -> np.ndarray:
    return (np.arange(n) < round(share * n)).astype(float)


def run(
    make_results: Callable[..., xr.Dataset], matrix: dict[str, dict[str, Any]], **more: Any
) -> xr.Dataset:
    """A result with A[source][target]; transfer attacks are called from-<source>."""
    targets = list(next(iter(matrix.values())))
    cells = {
        (target, f"from-{source}/transfer", EPSILON): value
        if isinstance(value, CellOutcome)
        else right(value)
        for source, row in matrix.items()
        for target, value in row.items()
    }
    results = make_results({target: np.ones(10) for target in targets}, cells, **more)
    told = [json.dumps({"source": str(name)[5:].partition("/")[0]}) for name in results["attack"].values]
    return results.assign_coords(settings=("attack", told))


def test_the_matrix_and_the_paper_s_equation_by_hand(make_results: Callable[..., xr.Dataset]) -> None:
    results = run(
        make_results,
        {
            "a": {"a": 0.0, "b": 0.6, "c": 0.9},
            "b": {"a": 0.5, "b": 0.1, "c": 0.6},
            "c": {"a": 0.7, "b": 0.8, "c": 0.2},
        },
    )
    matrix = results.unmask.transfer_matrix()
    assert matrix.dims == ("epsilon", "source", "target")
    assert matrix.sel(source="a", target="c").item() == 0.9
    assert matrix["numerator"].sel(source="b", target="a").item() == 5
    assert bool((matrix["denominator"] == 10).all())
    assert matrix.attrs["units"] == "1" and matrix.attrs["long_name"]
    # Eq. 7: the mean over the members of what each leaves of the examples of one source.
    expected = results.unmask.expected_ensemble_accuracy()
    assert expected.dims == ("epsilon", "source")
    np.testing.assert_allclose(
        expected.values[0], [(0 + 0.6 + 0.9) / 3, (0.5 + 0.1 + 0.6) / 3, (0.7 + 0.8 + 0.2) / 3]
    )
    best = results.unmask.best_transfer_source()
    assert best.item() == "b" and best["accuracy"].item() == pytest.approx(0.4)
    weighted = results.unmask.expected_ensemble_accuracy(["a", "c"], [0.25, 0.75])
    np.testing.assert_allclose(weighted.values[0], [0.675, 0.575, 0.325])
    assert results.unmask.best_transfer_source(["a", "c"], [0.25, 0.75]).item() == "c"


def test_matching_pennies(make_results: Callable[..., xr.Dataset]) -> None:
    # Examples of a member break it and nobody else: the defender tosses a coin, and so does the attacker.
    results = run(make_results, {"a": {"a": 0.0, "b": 1.0}, "b": {"a": 1.0, "b": 0.0}})
    game = results.unmask.best_ensemble_probabilities().isel(epsilon=0)
    np.testing.assert_allclose(game["probability"], [0.5, 0.5])
    np.testing.assert_allclose(game["source_probability"], [0.5, 0.5])
    assert game["value"].item() == pytest.approx(0.5) == game["uniform"].item()


def test_a_dominated_member_never_answers(make_results: Callable[..., xr.Dataset]) -> None:
    # b is better than a whatever the source, and the attacker's examples of b are the best against it.
    results = run(make_results, {"a": {"a": 0.1, "b": 0.9}, "b": {"a": 0.2, "b": 0.6}})
    game = results.unmask.best_ensemble_probabilities().isel(epsilon=0)
    np.testing.assert_allclose(game["probability"], [0.0, 1.0], atol=1e-9)
    np.testing.assert_allclose(game["source_probability"], [0.0, 1.0], atol=1e-9)
    assert game["value"].item() == pytest.approx(0.6)
    assert game["uniform"].item() == pytest.approx(0.4)


def test_a_mixed_game_has_the_textbook_solution() -> None:
    # [[a, b], [c, d]] without a saddle point: p = (d - b) / (a + d - b - c) for the first column,
    # and the value (a d - b c) / (a + d - b - c).
    payoff = np.array([[0.1, 0.7], [0.8, 0.3]])
    p, value = solve_matrix_game(payoff)
    below = 0.1 + 0.3 - 0.7 - 0.8
    np.testing.assert_allclose(p, [(0.3 - 0.7) / below, (0.1 - 0.8) / below])
    assert value == pytest.approx((0.1 * 0.3 - 0.7 * 0.8) / below)


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.floats(0, 1, width=32))
)
def test_no_player_can_do_better_alone(payoff: np.ndarray) -> None:
    p, value = solve_matrix_game(payoff)
    q, minus = solve_matrix_game(-payoff.T)
    assert p.min() >= 0 and q.min() >= 0
    assert p.sum() == pytest.approx(1) and q.sum() == pytest.approx(1)
    assert value == pytest.approx(-minus, abs=1e-7)  # von Neumann's minimax theorem
    assert (payoff @ p).min() == pytest.approx(value, abs=1e-7)
    assert (q @ payoff).max() == pytest.approx(value, abs=1e-7)
    assert value >= payoff.mean(1).min() - 1e-7  # no worse than equal probabilities


def test_several_attacks_of_one_source_count_with_the_worst(make_results: Callable[..., xr.Dataset]) -> None:
    cells = {
        ("a", "x/transfer", EPSILON): np.r_[np.zeros(3), np.ones(7)],
        ("a", "y/transfer", EPSILON): np.r_[np.ones(7), np.zeros(3)],
        ("a", "pgd", EPSILON): np.zeros(10),
    }
    results = make_results({"a": np.ones(10)}, cells)
    told = ["{}" if name == "pgd" else '{"source": "a"}' for name in results["attack"].values]
    matrix = results.assign_coords(settings=("attack", told)).unmask.transfer_matrix()
    assert matrix.sel(source="a", target="a").item() == 0.4


def test_a_missing_cell_leaves_its_row_without_a_number(make_results: Callable[..., xr.Dataset]) -> None:
    results = run(
        make_results, {"a": {"a": 0.1, "b": 0.9}, "b": {"a": CellOutcome.failed(10, "broke"), "b": 0.6}}
    )
    matrix = results.unmask.transfer_matrix()
    assert np.isnan(matrix.sel(source="b", target="a").item())
    expected = results.unmask.expected_ensemble_accuracy()
    assert expected.sel(source="a").item() == 0.5 and np.isnan(expected.sel(source="b").item())
    assert results.unmask.best_transfer_source().item() == ""
    assert np.isnan(results.unmask.best_ensemble_probabilities()["value"].item())
    assert report_data(results)["transfer"]["ensemble"][0]["value"] is None


def test_misuse_is_answered_in_words(make_results: Callable[..., xr.Dataset]) -> None:
    results = run(make_results, {"alpha": {"alpha": 0.1, "beta": 0.9}, "beta": {"alpha": 0.2, "beta": 0.6}})
    of = results.unmask
    with pytest.raises(UserError, match="Did you mean 'alpha'"):
        of.expected_ensemble_accuracy(["alpah"])
    with pytest.raises(UserError, match="each once"):
        of.best_ensemble_probabilities(["alpha", "alpha"])
    for wrong in ([0.5], [0.7, 0.7], [1.5, -0.5]):
        with pytest.raises(UserError, match="one probability for each of alpha, beta"):
            of.expected_ensemble_accuracy(probabilities=wrong)
    plain = make_results({"a": np.ones(3)}, {("a", "pgd"): np.zeros(3)})
    with pytest.raises(UserError, match="transfers from a named model"):
        plain.unmask.transfer_matrix()
    assert report_data(plain)["transfer"] is None
    assert "Transfer" not in render_markdown(plain)


def test_reports_tell_it(make_results: Callable[..., xr.Dataset]) -> None:
    results = run(make_results, {"a": {"a": 0.0, "b": 1.0}, "b": {"a": 1.0, "b": 0.0}})
    data = report_data(results)
    jsonschema = pytest.importorskip("jsonschema")
    schema = Path(__file__).parents[2] / "docs" / "report-schema.json"
    jsonschema.validate(data, json.loads(schema.read_text()))
    (ensemble,) = data["transfer"]["ensemble"]
    assert ensemble["value"] == pytest.approx(0.5) and ensemble["probabilities"] == {"a": 0.5, "b": 0.5}
    for page in (render_markdown(results), render_html(results)):
        assert "Transfer: accuracy in %" in page
        assert "Randomised ensemble of these models" in page
        assert "equal probabilities are sure of 50.00 %" in page


def test_from_an_evaluation(known: Any) -> None:
    model, images, labels = known.linear_problem()
    other = known.Linear(-model.weight.detach()).eval()
    results = unmask.evaluate(
        {"model": model, "opposite": other},
        images,
        labels,
        {f"from-{name}": unmask.attack("transfer", source=name) for name in ("model", "opposite")},
        epsilons=[0.1],
    )
    matrix = results.unmask.transfer_matrix().isel(epsilon=0)
    robust = results.unmask.robust_accuracy().isel(epsilon=0)
    for source in ("model", "opposite"):
        for target in ("model", "opposite"):
            found = matrix.sel(source=source, target=target).item()
            assert found == robust.sel(model=target, attack=f"from-{source}").item()
