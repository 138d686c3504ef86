"""Verdicts about results whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr

from unmask.dimensions import Status
from unmask.results import CellOutcome
from unmask.verdict import Verdict
from unmask.verdict.families import attack_rows

Make = Callable[..., xr.Dataset]
MakeCell = Callable[..., CellOutcome]


def share(rate: float, n: int = 200) -> Any:
    """The first `rate` of the samples right."""
    return (np.arange(n) < round(rate * n)).astype(float)


def judge(make: Make, cells: dict[Any, Any], clean: Any = None, **options: Any) -> Verdict:
    whole = {("m", *(key if isinstance(key, tuple) else (key,))): value for key, value in cells.items()}
    clean = np.ones(200) if clean is None else clean
    verdict: Verdict = make({"m": clean}, whole, **options).unmask.verdict()["m"]
    return verdict


def fired(verdict: Verdict) -> set[str]:
    return {i.name for i in verdict.fired}


def test_front_end_that_masks(make_results: Make) -> None:
    cells = {"pgd": share(0.75), "bpda": share(0.0), "square": share(0.02), "zero-order": share(0.66)}
    verdict = judge(make_results, cells)
    assert verdict.label == "masked"
    assert fired(verdict) == {
        "black-box-beats-white-box",
        "zero-order-beats-first-order",
        "bypass-beats-white-box",
    }
    by_name = {i.name: i for i in verdict.indicators}
    bypass = by_name["bypass-beats-white-box"]
    assert bypass.effect == pytest.approx(0.75) and bypass.samples == 200
    assert bypass.p_value < 1e-10 and bypass.attack == "bpda" and bypass.epsilon == 0.1
    transfer = by_name["transfer-beats-white-box"]
    assert not transfer.fired and transfer.samples == 0 and "transfer" in transfer.advice
    assert "bpda" in verdict.advice


def test_plain_backbone(make_results: Make) -> None:
    cells = {"pgd": share(0.0), "square": share(0.0), "zero-order": share(0.06), "transfer": share(0.1)}
    verdict = judge(make_results, cells)
    assert verdict.label == "no-sign" and not verdict.fired
    assert all(i.advice.endswith(".") for i in verdict.indicators)


def test_randomised_sound_and_masked(make_results: Make) -> None:
    kind = {"randomness": {"m": "enumerated"}}
    sound = judge(make_results, {"pgd": share(0.02), "square": share(0.51), "zero-order": share(0.7)}, **kind)
    assert sound.label == "no-sign" and fired(sound) == {"randomness"}
    masked = judge(make_results, {"pgd": share(0.91), "bpda": share(0.1), "square": share(0.5)}, **kind)
    assert masked.label == "masked" and "randomness" in fired(masked)


@pytest.mark.parametrize("seed", range(5))
def test_a_coin_is_not_masked(make_results: Make, make_cell: MakeCell, seed: int) -> None:
    random = np.random.default_rng(seed)

    def draw() -> Any:
        return random.binomial(20, 0.8, 200) / 20

    cells = {
        name: make_cell(draw(), screening=draw())
        for name in ("pgd", "fgsm", "bpda", "square", "zero-order", "transfer")
    }
    verdict = judge(make_results, cells, clean=draw(), randomness={"m": "drawn"})
    assert verdict.label == "no-sign"


def test_fractional_difference_is_found(make_results: Make, make_cell: MakeCell) -> None:
    random = np.random.default_rng(0)
    high, low = (random.binomial(20, p, 200) / 20 for p in (0.8, 0.6))
    verdict = judge(make_results, {"pgd": high, "square": low}, randomness={"m": "drawn"})
    indicator = next(i for i in verdict.fired if i.name == "black-box-beats-white-box")
    assert indicator.effect == pytest.approx(0.2, abs=0.05) and indicator.p_value < 0.01


def test_robust_model_on_which_all_attacks_agree(make_results: Make) -> None:
    """A sound robust model: attacks differ by a few samples in both directions."""
    random = np.random.default_rng(0)
    base = share(0.6)
    cells = {}
    for name in ("pgd", "square", "bpda", "transfer", "zero-order"):
        noisy = base.copy()
        noisy[random.integers(0, 200, 4)] = 0
        cells[name] = noisy
    assert judge(make_results, cells).label == "no-sign"


def test_more_samples_broken_than_chance_allows(make_results: Make) -> None:
    """Paired, not by the totals: 20 of 200 broken by Square alone, 20 by PGD alone, is no sign."""
    pgd, square = np.ones(200), np.ones(200)
    pgd[:20], square[20:40] = 0, 0
    assert judge(make_results, {"pgd": pgd, "square": square}).label == "no-sign"
    square[40:80] = 0
    assert judge(make_results, {"pgd": pgd, "square": square}).label == "masked"


def test_small_effects_are_not_held_against_a_model(make_results: Make) -> None:
    n = 2000
    square = share(1.0, n)
    square[:80] = 0
    verdict = judge(make_results, {"pgd": np.ones(n), "square": square}, clean=np.ones(n))
    indicator = verdict.indicators[0]
    assert indicator.p_value < 1e-6 and indicator.effect == pytest.approx(0.04)
    assert verdict.label == "no-sign"


def test_only_clean_correct_samples_count(make_results: Make) -> None:
    clean = share(0.5)
    verdict = judge(make_results, {"pgd": share(0.4), "square": share(0.3)}, clean=clean)
    assert verdict.indicators[0].samples == 100
    assert verdict.indicators[0].effect == pytest.approx(0.2)


def test_zero_gradients(make_results: Make, make_cell: MakeCell) -> None:
    blind = make_cell(np.ones(20), gradient_zero=np.ones(20), status=np.full(20, Status.ZERO_GRADIENT))
    verdict = judge(make_results, {"pgd": blind}, clean=np.ones(20))
    assert verdict.label == "masked" and fired(verdict) == {"zero-gradients"}
    assert next(i for i in verdict.fired).effect == 1.0
    bad = make_cell(np.ones(20), gradient_nonfinite=np.ones(20))
    assert fired(judge(make_results, {"pgd": bad}, clean=np.ones(20))) == {"non-finite-gradients"}


def test_zero_gradients_where_another_white_box_attack_could_see(
    make_results: Make, make_cell: MakeCell
) -> None:
    blind = make_cell(np.ones(200), gradient_zero=np.ones(200))
    verdict = judge(make_results, {"fgsm": blind, "pgd": share(0.9)})
    assert "zero-gradients" not in fired(verdict)
    # And broken samples are no evidence, whatever their gradients were.
    broken = make_cell(np.zeros(200), gradient_zero=np.ones(200))
    assert judge(make_results, {"pgd": broken}).label == "no-sign"


@pytest.mark.parametrize(
    ("cells", "clean", "word"),
    [
        ({"pgd": share(0.5)}, None, "square"),
        ({"square": share(0.5)}, None, "pgd"),
        ({"pgd": share(0.5, 30), "square": share(0.5, 30)}, np.ones(30), "at least 50"),
        ({("pgd", 0.0): share(1.0)}, None, "above zero"),
        ({"pgd": CellOutcome.failed(200, "boom"), "square": share(0.5)}, None, "pgd"),
    ],
)
def test_inconclusive_and_what_to_add(make_results: Make, cells: Any, clean: Any, word: str) -> None:
    verdict = judge(make_results, cells, clean=clean)
    assert verdict.label == "inconclusive" and word in verdict.advice


def test_every_radius_must_be_covered(make_results: Make) -> None:
    cells = {
        ("pgd", 0.1): share(0.6),
        ("pgd", 0.2): share(0.0),
        ("square", 0.1): CellOutcome.not_run(200, "time is up"),
        ("square", 0.2): share(0.0),
    }
    assert judge(make_results, cells).label == "inconclusive"
    assert judge(make_results, {**cells, ("square", 0.1): share(0.62)}).label == "no-sign"


def test_few_steps_are_no_masking(make_results: Make, make_cell: MakeCell) -> None:
    """One gradient step does worse than a thousand queries on any model."""
    step = make_cell(share(0.4), backwards=np.ones(200))
    verdict = judge(make_results, {"fgsm": step, "square": share(0.0)})
    assert verdict.label == "inconclusive" and "10 steps" in verdict.advice


def test_few_steps_suffice_against_the_same_search(make_results: Make, make_cell: MakeCell) -> None:
    few = make_cell(share(0.9), backwards=np.full(200, 3))
    assert judge(make_results, {"pgd": few, "bpda": share(0.1)}).label == "masked"


def test_families(make_results: Make) -> None:
    cells = {("m", name): [1] for name in ("pgd", "fgsm", "bpda", "zero-order", "square", "transfer")}
    rows = attack_rows(make_results({"m": [1]}, cells).sel(model="m"))
    assert [row.family for row in rows] == [
        "white-box",
        "white-box",
        "bypass",
        "zero-order",
        "black-box",
        "transfer",
    ]


def test_nested_and_qualified_gradient_sources(make_results: Make) -> None:
    ds = make_results({"m": [1]}, {("m", "pgd"): [1]}).sel(model="m")
    nested = '{"gradient": {"use": "eot", "source": {"use": "unmask:bypass"}, "draws": 5}}'
    ds = ds.assign_coords(gradient=("attack", ["eot"]), settings=("attack", [nested]))
    assert attack_rows(ds)[0].family == "bypass"
    ds = ds.assign_coords(gradient=("attack", ["eot"]), settings=("attack", ['{"gradient": {"use": "eot"}}']))
    assert attack_rows(ds)[0].family == "white-box"
    assert attack_rows(ds.assign_coords(gradient=("attack", ["somebody-elses"])))[0].family == "other"


def test_stages_of_a_suite(make_results: Make) -> None:
    cells = {("m", name): [1] for name in ("pgd", "pgd/pgd", "pgd/square", "pgd/fgsm")}
    rows = attack_rows(make_results({"m": [1]}, cells).sel(model="m"))
    assert [row.family for row in rows] == ["other", "white-box", "black-box", "other"]


def test_false_alarms_are_rare(make_results: Make) -> None:
    """Sound models on which every attack breaks samples by its own luck: 1 % may be called masked."""
    random, alarms = np.random.default_rng(3), 0
    for _ in range(40):
        cells = {name: random.random(100) < 0.5 for name in ("pgd", "square", "transfer", "bpda")}
        alarms += judge(make_results, cells, clean=np.ones(100)).label == "masked"
    assert alarms <= 3
