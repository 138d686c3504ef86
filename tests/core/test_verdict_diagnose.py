"""`diagnose = true`: what is added, on how many samples, at what cost, and that it harms nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unmask
from unmask.dimensions import Status
from unmask.errors import UserError
from unmask.evaluation import diagnosing, slopes
from unmask.manifest.reading import parse_manifest
from unmask.reports.diagnosis import diagnosis_cost
from unmask.reports.structured import report_data
from unmask.reports.text import render_text

PGD = {"pgd": unmask.attack("pgd", steps=12)}


def added(results) -> list[str]:
    return [name for name in results.attack.values if name.startswith("diagnose/")]


@pytest.fixture(scope="module")
def problem():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(3, 16, generator=generator) / 4
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3, bias=False))
    with torch.no_grad():
        model[1].weight.copy_(weight)
    images = torch.rand((60, 1, 4, 4), generator=generator)
    return model.eval(), images, model(images).argmax(1).detach()


def test_what_is_missing_is_added(problem) -> None:
    model, images, labels = problem
    results = unmask.evaluate(model, images, labels, PGD, [0.02, 0.05], diagnose=True)
    assert added(results) == [
        f"diagnose/{what}" for what in ("square", "zero-order", "margin", "whole-box", "repeat")
    ]
    verdict = results.unmask.verdict()["model"]
    assert verdict.label == "no-sign"
    quiet = {i.name for i in verdict.indicators if not i.samples}
    assert quiet == {
        "bypass-beats-white-box",
        "transfer-beats-white-box",
        "averaging-beats-single-draws",
        "success-on-the-path-only",
    }
    # The margin of a linear model changes exactly as its gradient says.
    np.testing.assert_allclose(results.slope_measured, results.slope_predicted, rtol=1e-4)
    assert np.isfinite(results.distance.sel(attack="diagnose/whole-box")).all()


def test_what_the_run_has_is_not_added(problem) -> None:
    model, images, labels = problem
    attacks = {
        **PGD,
        "margin": unmask.attack("pgd", loss="margin", steps=12),
        "square": unmask.attack("square", queries=20),
        "slopes": unmask.attack("pgd", steps=2, gradient="finite-difference"),
    }
    results = unmask.evaluate(model, images, labels, attacks, [0.05], diagnose=True)
    assert added(results) == ["diagnose/whole-box"]


def test_without_a_long_gradient_search_one_is_added(problem) -> None:
    model, images, labels = problem
    results = unmask.evaluate(model, images[:10], labels[:10], ["fgsm"], [0.05], diagnose=True)
    assert "diagnose/pgd" in added(results)
    assert results.use.sel(attack="diagnose/pgd").item() == "pgd"


def test_by_kind_of_model(problem) -> None:
    model, images, labels = problem
    guarded = unmask.Defended(unmask.front_end("bit-depth", bits=2), model).eval()
    mixed = unmask.RandomizedEnsemble([model, guarded]).eval()
    noisy = torch.nn.Sequential(unmask.front_end("gaussian-noise", sigma=0.01), model).eval()
    models = {"plain": model, "guarded": guarded, "mixed": mixed, "noisy": noisy}
    results = unmask.evaluate(models, images[:8], labels[:8], PGD, [0.05], diagnose=True, draws=8)
    assert {"diagnose/bypass", "diagnose/transfer", "diagnose/eot"} <= set(added(results))
    ran = (results.status != Status.NOT_RUN).all(("epsilon", "sample"))
    expected = {
        "diagnose/bypass": {"guarded", "mixed"},
        "diagnose/eot": {"mixed", "noisy"},
        "diagnose/whole-box": {"plain", "guarded"},
        "diagnose/zero-order": {"plain", "guarded", "mixed"},
        "diagnose/square": set(models),
    }
    for attack, names in expected.items():
        assert set(results.model.values[ran.sel(attack=attack).values]) == names
    assert "answer at random" in str(results.message.sel(model="plain", attack="diagnose/eot").values)


def test_the_run_itself_is_not_changed(problem) -> None:
    model, images, labels = problem
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    bare = unmask.evaluate(model, images, labels, PGD, [0.02, 0.05])
    rich = unmask.evaluate(model, images, labels, PGD, [0.02, 0.05], diagnose=True)
    for name in ("correct", "margin", "forwards", "distance", "status"):
        assert rich[name].sel(attack=["pgd"]).equals(bare[name])
    assert "slope_predicted" not in bare and "raw_correct" not in bare
    assert (rich.unmask.worst_case() <= bare.unmask.worst_case()).all()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_only_the_first_samples(problem, monkeypatch, tmp_path) -> None:
    model, images, labels = problem
    for module in (diagnosing, slopes):
        monkeypatch.setattr(module, "DIAGNOSED", 20)
    monkeypatch.setattr("unmask.evaluation.evaluate.DIAGNOSED", 20)
    monkeypatch.setattr("unmask.evaluation.schedule.Plan.SHARD", 15)
    folder = tmp_path / "run"
    results = unmask.evaluate(model, images, labels, PGD, [0.02, 0.05], diagnose=True, out=folder)
    ran = results.status != Status.NOT_RUN
    assert ran.sel(attack="pgd").all()
    for attack in added(results):
        assert ran.sel(attack=attack).all(("model", "epsilon")).values.tolist() == [True] * 20 + [False] * 40
        assert results.unmask.robust_accuracy().sel(attack=attack).isnull().all()
    assert np.isfinite(results.slope_predicted).sum() == 20
    assert not results.unmask.worst_case().upper_bound.any()
    text = " ".join(render_text(results, 200).split())
    assert "on the first 20 samples" in text and "count in the worst case" in text
    assert "Cells without a rate" not in text
    assert report_data(results)["diagnosis"]["samples"] == 20
    again = unmask.evaluate(model, images, labels, PGD, [0.02, 0.05], diagnose=True, out=folder)
    assert again.correct.equals(results.correct) and again.raw_correct.equals(results.raw_correct)
    loaded = unmask.load(folder / "results.nc")
    # Numbers that do not exist are not equal to themselves, but spelled alike.
    assert repr(loaded.unmask.verdict()) == repr(results.unmask.verdict())
    assert "only 20 samples" in results.unmask.verdict()["model"].advice


def test_an_example_of_the_diagnosis_counts(known) -> None:
    """A model whose own gradient is zero: only what was added can break it."""
    model, images, labels = known.linear_problem(n=60)
    masked = torch.nn.Sequential(known.ZeroBackward(), model).eval()
    results = unmask.evaluate(masked, images, labels, PGD, [0.3], diagnose=True)
    assert (
        results.unmask.robust_accuracy().sel(attack="pgd").item() > results.unmask.worst_case().item() + 0.2
    )
    assert set(np.unique(results.unmask.worst_attack().values.astype(str))) & set(added(results))
    assert results.unmask.verdict()["model"].label == "masked"


def test_cost(problem) -> None:
    model, images, labels = problem
    results = unmask.evaluate(model, images, labels, PGD, [0.02, 0.05], diagnose=True)
    cost = diagnosis_cost(results)
    assert cost is not None
    rows = results.sel(attack=added(results))
    twice = rows.sel(attack="diagnose/whole-box", epsilon=0.05)
    # A search without a radius ran once though it stands at both; three points of the slopes per sample.
    assert cost["forwards"] == int(rows.forwards.sum() - twice.forwards.sum()) + 3 * 60
    assert cost["backwards"] == int(rows.backwards.sum() - twice.backwards.sum()) + 60
    assert cost["seconds"] > 0
    assert diagnosis_cost(unmask.evaluate(model, images, labels, PGD, [0.05])) is None


def test_repeat_is_searched_at_every_radius_on_its_own(problem) -> None:
    """Whatever fell at 0.02 is attacked again at 0.05, though it counts there already."""
    model, images, labels = problem
    results = unmask.evaluate(model, images, labels, PGD, [0.02, 0.05], diagnose=True)
    repeat = results.sel(attack="diagnose/repeat", model="model")
    fell = (repeat.correct.sel(epsilon=0.02) == 0).values
    assert fell.any()
    assert (repeat.forwards.sel(epsilon=0.05).values[fell] > 0).all()
    assert (results.forwards.sel(attack="pgd", model="model", epsilon=0.05).values[fell] == 0).all()
    assert (repeat.raw_correct.sel(epsilon=0.05) <= repeat.raw_correct.sel(epsilon=0.02)).all()


def test_an_attack_that_walks_past_its_example(known) -> None:
    model, images, labels = known.linear_problem(n=20, classes=2)

    def careless(target, x, y, budget, random):
        g = model.weight[1 - y] - model.weight[y]
        target(budget.project(x + budget.epsilon * g.reshape(x.shape).sign(), around=x))
        return x

    results = unmask.evaluate(model, images, labels, {"careless": careless}, [0.3])
    passed = results.overlooked.values[0, 0, 0] == 1
    # Every sample that fell was given away by the attack, and counted by the door.
    right = results.clean_correct.values[0] == 1
    assert np.array_equal(passed[right], results.correct.values[0, 0, 0][right] == 0) and passed.any()


@pytest.mark.parametrize("name", ["diagnose", "diagnose/mine"])
def test_names_of_the_diagnosis_are_kept(problem, name) -> None:
    model, images, labels = problem
    with pytest.raises(UserError, match="the run's own"):
        unmask.evaluate(model, images, labels, {name: "fgsm"}, [0.1])


def test_manifest() -> None:
    text = (
        'name = "a"\nepsilons = ["8/255"]\n{}[data]\nuse = "digits"\n[models.a]\nuse = "small-cnn"\n'
        '[attacks.pgd]\nuse = "pgd"\n'
    )
    assert parse_manifest(text.format("diagnose = true\n")).diagnose is True
    assert parse_manifest(text.format("")).diagnose is False
    with pytest.raises(UserError, match="diagnose"):
        parse_manifest(text.format('diagnose = "yes"\n'))
