"""The indicators that look at searches, slopes, radii and convergence, about results whose truth is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr

from unmask.results import CellOutcome
from unmask.verdict import Indicator, Verdict
from unmask.verdict.families import attack_row

Make = Callable[..., xr.Dataset]
MakeCell = Callable[..., CellOutcome]

N = 100


def share(rate: float, n: int = N) -> Any:
    return (np.arange(n) < round(rate * n)).astype(float)


def results(make: Make, cells: dict[Any, Any], **settings: dict[str, Any]) -> xr.Dataset:
    """One model; `settings` of attacks by name, where dashes are underscores."""
    whole = {("m", *(key if isinstance(key, tuple) else (key,))): value for key, value in cells.items()}
    ds = make({"m": np.ones(N)}, whole)
    told = {name.replace("_", "-"): value for name, value in settings.items()}
    texts = [
        json.dumps({**json.loads(text), **told.get(str(name), {})})
        for name, text in zip(ds.attack.values, ds.settings.values, strict=True)
    ]
    return ds.assign_coords(settings=("attack", np.array(texts, dtype=object)))


def verdict(ds: xr.Dataset) -> Verdict:
    found: Verdict = ds.unmask.verdict()["m"]
    return found


def indicator(ds: xr.Dataset, name: str) -> Indicator:
    return next(i for i in verdict(ds).indicators if i.name == name)


PAIR = {"pgd": share(0.8), "x/pgd": share(0.1), "square": share(0.8)}


def paired(make: Make, other: dict[str, Any], cells: dict[Any, Any] = PAIR) -> xr.Dataset:
    """Two PGDs, the first with cross-entropy, the second renamed and set otherwise."""
    ds = results(make, cells, pgd={"loss": "ce"})
    names = ["other" if name == "x/pgd" else name for name in ds.attack.values]
    texts = [
        json.dumps({"steps": 50, "loss": "ce", **other}) if name == "other" else text
        for name, text in zip(names, ds.settings.values, strict=True)
    ]
    return ds.assign_coords(attack=names, settings=("attack", np.array(texts, dtype=object)))


@pytest.mark.parametrize("loss", ["margin", "dlr"])
def test_loss_saturation(make_results: Make, loss: str) -> None:
    ds = paired(make_results, {"loss": loss})
    found = indicator(ds, "loss-saturation")
    assert found.fired and found.effect == pytest.approx(0.7) and found.samples == N
    assert found.attack == "other" and found.p_value < 1e-10
    assert verdict(ds).label == "masked" and "'other'" in verdict(ds).advice


def test_a_longer_search_with_another_loss_is_no_saturation(make_results: Make) -> None:
    found = indicator(paired(make_results, {"loss": "margin", "steps": 100}), "loss-saturation")
    assert not found.fired and found.samples == 0 and "margin" in found.advice
    many = indicator(paired(make_results, {"loss": "dlr", "targets": 9}), "loss-saturation")
    assert many.samples == 0


def test_averaging(make_results: Make) -> None:
    found = indicator(paired(make_results, {"eot": 8}), "averaging-beats-single-draws")
    assert found.fired and found.effect == pytest.approx(0.7)
    nested = paired(make_results, {"gradient": {"use": "unmask:eot", "source": {"use": "autograd"}}})
    assert indicator(nested, "averaging-beats-single-draws").fired


def test_slopes(make_results: Make) -> None:
    ds = results(make_results, {"pgd": share(0.5), "square": share(0.5)})
    one = np.ones((1, N))
    for predicted, measured, name in (
        (1e-3 * one, one, "vanishing-gradients"),
        (1e3 * one, one, "exploding-gradients"),
    ):
        found = ds.assign(
            slope_predicted=(("model", "sample"), predicted), slope_measured=(("model", "sample"), measured)
        )
        assert {i.name for i in verdict(found).fired} == {name}
        # Only samples that stand count, and they are the half.
        assert indicator(found, name).effect == pytest.approx(0.5)
        assert verdict(found).label == "masked"
    for predicted, measured in ((one, 50 * one), (50 * one, one), (0 * one, one), (one, 0 * one)):
        found = ds.assign(
            slope_predicted=(("model", "sample"), predicted), slope_measured=(("model", "sample"), measured)
        )
        assert not verdict(found).fired
    assert "diagnose" in indicator(ds, "vanishing-gradients").advice


def test_accuracy_above_chance_where_the_ball_is_wide(make_results: Make) -> None:
    """Ten classes: a tenth may stand by chance."""
    cells = {(name, 0.5): share(0.6) for name in ("pgd", "square")}
    found = indicator(results(make_results, cells), "accuracy-above-chance")
    assert found.fired and found.effect == pytest.approx(0.5) and found.epsilon == 0.5
    by_chance = {(name, 0.5): share(0.15) for name in ("pgd", "square")}
    assert not indicator(results(make_results, by_chance), "accuracy-above-chance").fired
    narrow = {(name, 0.4): share(0.6) for name in ("pgd", "square")}
    assert indicator(results(make_results, narrow), "accuracy-above-chance").samples == 0
    # Only attacks that follow the gradient are expected to get there.
    alone = {("pgd", 0.5): share(0.0), ("square", 0.5): share(0.9)}
    assert not indicator(results(make_results, alone), "accuracy-above-chance").fired


def test_accuracy_above_chance_of_a_search_without_a_bound(make_results: Make, make_cell: MakeCell) -> None:
    lost = make_cell(np.ones(N), distance=np.where(share(0.6) > 0, np.inf, 0.7))
    ds = results(make_results, {"pgd": lost, "square": share(1.0)}, pgd={"steps": 100})
    ds = ds.assign_coords(search=("attack", ["nearest", "within"]))
    found = indicator(ds, "accuracy-above-chance")
    assert found.fired and found.effect == pytest.approx(0.5) and found.attack == "pgd"
    drawn = ds.assign_coords(randomness=("model", ["drawn"]))
    assert indicator(drawn, "accuracy-above-chance").samples == 0
    # A short search stops on its way; one towards a class may have no way at all.
    for settings in ({"steps": 99}, {"steps": 1000, "targeted": True, "target": 3}):
        other = results(make_results, {"pgd": lost, "square": share(1.0)}, pgd=settings)
        other = other.assign_coords(search=("attack", ["nearest", "within"]))
        assert indicator(other, "accuracy-above-chance").samples == 0


def test_what_another_gradient_attack_broke_does_not_stand(make_results: Make, make_cell: MakeCell) -> None:
    lost = make_cell(np.ones(N), distance=np.where(share(0.6) > 0, np.inf, 0.7))
    ds = results(make_results, {"pgd": lost, "x/pgd": share(0.05)}, pgd={"steps": 100})
    ds = ds.assign_coords(attack=["fmn", "pgd"], search=("attack", ["nearest", "within"]))
    assert not indicator(ds, "accuracy-above-chance").fired


def test_a_search_for_one_class_is_no_measure_of_a_search_for_any(make_results: Make) -> None:
    """Its failure says that this class is out of reach."""
    cells = {"pgd": share(0.8), "square": share(0.3)}
    name, aimed = "black-box-beats-white-box", {"targeted": True, "target": 3}
    assert indicator(results(make_results, cells), name).fired
    found = indicator(results(make_results, cells, pgd=aimed), name)
    assert found.samples == 0 and "without a target" in found.advice
    assert verdict(results(make_results, cells, pgd=aimed)).label == "inconclusive"
    # Towards the same class they are equals, and an aimed one that does better needs no more.
    assert indicator(results(make_results, cells, pgd=aimed, square=aimed), name).fired
    assert indicator(results(make_results, cells, square=aimed), name).fired
    elsewhere = {"targeted": True, "target": 4}
    assert indicator(results(make_results, cells, pgd=aimed, square=elsewhere), name).samples == 0
    plain = paired(make_results, {"loss": "margin"})
    texts = [json.dumps({**json.loads(t), **({} if "margin" in t else aimed)}) for t in plain.settings.values]
    told = plain.assign_coords(settings=("attack", np.array(texts, dtype=object)))
    assert indicator(told, "loss-saturation").samples == 0


def test_accuracy_rises_with_epsilon(make_results: Make, make_cell: MakeCell) -> None:
    cells = {
        ("pgd", 0.1): make_cell(share(0.3), raw_correct=share(0.3)),
        ("pgd", 0.2): make_cell(share(0.3), raw_correct=share(0.6)),
        ("square", 0.1): share(0.3),
        ("square", 0.2): share(0.3),
    }
    found = indicator(results(make_results, cells), "accuracy-rises-with-epsilon")
    assert found.fired and found.effect == pytest.approx(0.3) and found.epsilon == 0.2
    cells["pgd", 0.2] = make_cell(share(0.1), raw_correct=share(0.1))
    ds = results(make_results, cells)
    assert not indicator(ds, "accuracy-rises-with-epsilon").fired
    assert indicator(ds.drop_vars("raw_correct"), "accuracy-rises-with-epsilon").samples == 0


def test_late_successes(make_results: Make, make_cell: MakeCell) -> None:
    """A fifth falls in the last passes: the number is provisional, but nobody is accused."""
    correct, passes = share(0.5), np.full(N, 51)
    passes[50:70], passes[70:] = 49, 5
    late = make_cell(correct, forwards=passes)
    ds = results(make_results, {"pgd": late, "square": correct})
    found = indicator(ds, "search-not-converged")
    assert found.fired and found.effect == pytest.approx(0.2) and not found.evidence
    assert verdict(ds).label == "inconclusive" and "more steps" in verdict(ds).advice.replace("\n", " ")
    passes[50:70] = 20
    early = results(make_results, {"pgd": make_cell(correct, forwards=passes), "square": correct})
    assert verdict(early).label == "no-sign"
    # What fell early under another search was not late.
    both = {"pgd": late, "x/pgd": make_cell(share(0.0)), "square": share(0.0)}
    assert not indicator(paired(make_results, {}, both), "search-not-converged").fired


def test_longer_searches_still_gain(make_results: Make) -> None:
    cells = {"pgd": share(0.8), "x/pgd": share(0.5), "square": share(0.6)}
    found = indicator(paired(make_results, {"restarts": 3}, cells), "search-not-converged")
    assert found.fired and found.effect == pytest.approx(0.3) and found.attack == "other"
    # Ten times as long: says nothing about the end of the long one.
    far = indicator(paired(make_results, {"restarts": 10}, cells), "search-not-converged")
    assert not far.fired


def test_overlooked_examples_are_told_and_are_no_evidence(make_results: Make, make_cell: MakeCell) -> None:
    careless = make_cell(share(0.5), overlooked=1 - share(0.6))
    ds = results(make_results, {"pgd": share(0.5), "square": careless})
    found = indicator(ds, "success-on-the-path-only")
    assert found.fired and found.effect == pytest.approx(0.4) and found.attack == "square"
    assert not found.evidence and verdict(ds).label == "no-sign"


def test_every_indicator_tells_its_test_and_what_to_do(make_results: Make, make_cell: MakeCell) -> None:
    careless = make_cell(share(0.5), overlooked=np.zeros(N))
    cells = {("pgd", 0.5): share(0.5), ("square", 0.5): careless}
    for found in verdict(results(make_results, cells)).indicators:
        assert found.advice.endswith(".") and found.advice.count(". ") == 0
        if found.samples and found.name != "randomness":
            assert 0 <= found.p_value <= 1 and np.isfinite(found.effect)


def test_attacks_of_the_diagnosis_are_no_stages_and_may_cover_some_samples(
    make_results: Make, make_cell: MakeCell
) -> None:
    part = CellOutcome.concatenate([make_cell(np.zeros(60)), CellOutcome.not_run(N - 60, "first only")])
    cells = {"pgd": share(1.0), "diagnose/square": part, "diagnose/pgd": share(1.0)}
    ds = results(make_results, cells)
    found = indicator(ds, "black-box-beats-white-box")
    assert found.fired and found.samples == 60 and found.effect == 1.0
    worst = ds.unmask.worst_case()
    assert worst.item() == pytest.approx(0.4) and not bool(worst.upper_bound.item())
    few = CellOutcome.concatenate([make_cell(np.ones(40)), CellOutcome.not_run(N - 40, "first only")])
    silent = results(make_results, {"pgd": share(1.0), "diagnose/square": few})
    assert verdict(silent).label == "inconclusive"


def test_what_a_row_is() -> None:
    row = attack_row(
        "a", "pgd", "gradients", "autograd", "within", {"steps": 10, "restarts": 3, "loss": "dlr"}
    )
    assert (row.family, row.steps, row.loss, row.averaged) == ("white-box", 30, "dlr", False)
    assert attack_row("a", "apgd", "gradients", "", "within", {"steps": 10, "targets": 9}).steps == 90
    assert attack_row("diagnose/a", "square", "scores", "", "within", {}).diagnostic
