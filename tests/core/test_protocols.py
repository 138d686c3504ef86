"""Two ways to score a randomised model: its expected correctness, or one draw for each sample."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unmask
from unmask.errors import UserError
from unmask.manifest.reading import parse_manifest

ATTACKS = {"pgd": {"use": "pgd", "steps": 2, "restarts": 2}, "fgsm": "fgsm"}


def evaluate(models, images, labels, protocol, **options):
    return unmask.evaluate(
        models, images, labels, ATTACKS, [0.1, 0.2], protocol=protocol, draws=64, **options
    )


@pytest.mark.parametrize("kind", ["coin", "ensemble"])
def test_a_single_draw_is_right_as_often_as_expected_and_attacks_take_nothing_away(known, kind):
    """A model that ignores its input: whatever is thrown at it, the draw of a sample stays the same."""
    p = 0.7
    model = (
        known.Coin(p)
        if kind == "coin"
        else unmask.RandomizedEnsemble([known.Constant(1.0, 0.0), known.Constant(0.0, 1.0)], [p, 1 - p])
    )
    images, labels = torch.rand(300, 1, 1, 2), torch.zeros(300, dtype=torch.long)
    results = evaluate({"m": model.eval()}, images, labels, "single-draw")
    assert set(np.unique(results.clean_correct.values)) == {0.0, 1.0}
    assert abs(float(results.clean_correct.mean()) - p) < 4 * (p * (1 - p) / 300) ** 0.5
    np.testing.assert_array_equal(
        results.correct.values,
        np.broadcast_to(results.clean_correct.values[:, None, None], results.correct.shape),
    )
    assert results.attrs["protocol"] == "single-draw"
    assert int(results.draws.item()) == 1
    assert (results.screening.values > 0.4).all(), "examples are chosen by their expectation"


def test_both_protocols_agree_on_the_mean_and_on_deterministic_models(known):
    models = {"mixed": unmask.RandomizedEnsemble([known.linear_problem(seed=s)[0] for s in range(3)]).eval()}
    _, images, labels = known.linear_problem(n=200)
    expected = evaluate(models, images, labels, "expected")
    single = evaluate(models, images, labels, "single-draw")
    assert expected.attrs["protocol"] == "expected"
    for epsilon in (0.1, 0.2):
        for attack in ATTACKS:
            mean = float(expected.correct.sel(epsilon=epsilon, attack=attack).mean())
            drawn = float(single.correct.sel(epsilon=epsilon, attack=attack).mean())
            assert abs(mean - drawn) < 4 * 0.5 / 200**0.5
    plain = {"plain": known.linear_problem()[0]}
    one, two = (evaluate(plain, images, labels, protocol) for protocol in ("expected", "single-draw"))
    for name in ("correct", "clean_correct", "margin", "prediction", "forwards"):
        np.testing.assert_array_equal(one[name].values, two[name].values)
    assert int(two.draws.item()) == 0


def test_a_single_draw_does_not_depend_on_batch_or_order(known):
    models = {
        "mixed": unmask.RandomizedEnsemble([known.linear_problem(seed=s)[0] for s in range(3)]).eval(),
        "coin": known.Coin(0.5).eval(),
    }
    _, images, labels = known.linear_problem(n=20)
    whole = evaluate(models, images, labels, "single-draw")
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    other = evaluate(models, images[order], labels[order], "single-draw", sample_ids=order, batch_size=7)
    for name in ("correct", "clean_correct", "prediction"):
        np.testing.assert_array_equal(other[name].sel(sample=range(20)).values, whole[name].values)


def test_a_single_draw_never_rises_with_the_radius_nor_above_clean(known):
    models = {"mixed": unmask.RandomizedEnsemble([known.linear_problem(seed=s)[0] for s in range(3)]).eval()}
    _, images, labels = known.linear_problem(n=60)
    results = evaluate(models, images, labels, "single-draw")
    assert (results.correct <= results.clean_correct).all()
    # The expectation that examples are chosen by falls; one draw of it need not, for every single sample.
    assert (results.screening.diff("epsilon") <= 0).all()


def test_the_protocol_is_checked_and_read_from_manifests(known):
    model, images, labels = known.linear_problem()
    with pytest.raises(UserError, match="protocol"):
        evaluate({"m": model}, images, labels, "lucky")
    text = """
epsilons = ["8/255"]
{protocol}
data = {{ use = "digits", samples = 10 }}
models.backbone = {{ use = "small-cnn" }}
attacks.a = {{ use = "pgd" }}
"""
    assert parse_manifest(text.format(protocol="")).protocol == "expected"
    assert parse_manifest(text.format(protocol='protocol = "single-draw"')).protocol == "single-draw"
    with pytest.raises(UserError, match="single-draw"):
        parse_manifest(text.format(protocol='protocol = "single-drew"'))
