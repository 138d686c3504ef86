"""Transfer from one model, from a list, from all, and from all but the one that is attacked."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import unmask
from unmask.dimensions import Status
from unmask.errors import UserError

PGD = {"use": "pgd", "steps": 10, "random_start": False, "loss": "margin"}


def transfer(source, **options):
    return unmask.attack("transfer", **{"source": source, "attack": PGD, **options})


def models(known, count=3):
    return {f"m{k}": known.linear_problem(classes=2, seed=k)[0] for k in range(count)}


@pytest.fixture
def problem(known):
    _, images, labels = known.linear_problem(classes=2, n=30)
    return models(known), images, labels


class MeanLogits(torch.nn.Module):
    def __init__(self, members):
        super().__init__()
        self.members = torch.nn.ModuleList(members)

    def forward(self, images):
        return torch.stack([member(images) for member in self.members]).mean(0)


def examples(results, model, attack):
    return results.adversarial.sel(model=model, attack=attack).values


def test_mean_logits_are_those_of_a_model_that_averages_them(known, problem):
    named, images, labels = problem
    mean = MeanLogits(list(named.values())).eval()
    pair = MeanLogits([named["m1"], named["m2"]]).eval()
    attacks = {
        "all": transfer("all"),
        "mean": transfer(mean),
        "left out": transfer("leave-one-out"),
        "pair": transfer(pair),
        "list": transfer(["m1", "m2"]),
    }
    results = unmask.evaluate(named, images, labels, attacks, [0.1], keep_examples=True)
    assert (results.message == "").all()
    for model in named:
        np.testing.assert_allclose(
            examples(results, model, "all"), examples(results, model, "mean"), atol=1e-6
        )
    np.testing.assert_allclose(
        examples(results, "m0", "left out"), examples(results, "m0", "pair"), atol=1e-6
    )
    np.testing.assert_array_equal(examples(results, "m0", "left out"), examples(results, "m0", "list"))
    assert not np.array_equal(examples(results, "m1", "left out"), examples(results, "m1", "list"))
    # The sources' queries are not the target's: one look at the one restart.
    assert (results.forwards.values[results.status.values == Status.OK] == 1).all()


def test_mean_loss_is_the_expectation_over_a_randomised_model_of_the_sources(known, problem):
    named, images, labels = problem
    mixed = unmask.RandomizedEnsemble([named["m1"], named["m2"]]).eval()
    ce = {**PGD, "loss": "ce"}
    attacks = {
        "loss": transfer(["m1", "m2"], combine="loss", attack=ce),
        "logits": transfer(["m1", "m2"], combine="logits", attack=ce),
        "expected": transfer(mixed, attack={**ce, "eot": 2}),
    }
    results = unmask.evaluate(
        {"m0": named["m0"], **named}, images, labels, attacks, [0.1], "l2", keep_examples=True
    )
    np.testing.assert_allclose(
        examples(results, "m0", "loss"), examples(results, "m0", "expected"), atol=1e-6
    )
    assert np.abs(examples(results, "m0", "loss") - examples(results, "m0", "logits")).max() > 1e-4


def test_a_transfer_from_the_model_itself_is_the_attack_itself(known, problem):
    named, images, labels = problem
    results = unmask.evaluate(
        {"m0": named["m0"]}, images, labels, {"t": transfer("all"), "pgd": _own()}, [0.05]
    )
    found = results.correct.sel(model="m0")
    np.testing.assert_array_equal(found.sel(attack="t").values, found.sel(attack="pgd").values)


def _own():
    return unmask.attack("pgd", **{k: v for k, v in PGD.items() if k != "use"})


def test_targets_transfer_too(known):
    named = {f"m{k}": known.linear_problem(classes=4, seed=0)[0] for k in range(2)}
    _, images, labels = known.linear_problem(classes=4)
    results = unmask.evaluate(
        named, images, labels, {"t": transfer("leave-one-out", targeted=True, target=1)}, [0.5]
    )
    # Both models are the same one.
    assert np.nanmean(results.target_reached.values) > 0.8


def test_settings_say_what_the_manifest_said(problem):
    named, images, labels = problem
    attacks = {"one": transfer("m0"), "two": transfer(["m0", "m1"]), "rule": transfer("leave-one-out")}
    results = unmask.evaluate(named, images, labels, attacks, [0.1])
    sources = [json.loads(str(text))["source"] for text in results.settings.values]
    assert sources == ["m0", ["m0", "m1"], "leave-one-out"]


def test_refusals(problem, known):
    named, images, labels = problem
    with pytest.raises(UserError, match="m7"):
        unmask.evaluate(named, images, labels, {"t": transfer(["m0", "m7"])}, [0.1])
    with pytest.raises(UserError, match="no other model"):
        unmask.evaluate({"m0": named["m0"]}, images, labels, {"t": transfer("leave-one-out")}, [0.1])
    with pytest.raises(UserError, match="empty"):
        transfer([])
    with pytest.raises(UserError, match="'square' has none"):
        transfer("all", attack={"use": "square"}, combine="loss")
    with pytest.raises(UserError, match="within a ball"):
        transfer("all", attack="deepfool")
    wide = {**named, "wide": known.linear_problem(classes=5)[0]}
    results = unmask.evaluate(wide, images, labels, {"t": transfer("all")}, [0.1])
    assert "2, 5 classes" in str(results.message.values.ravel()[0])
