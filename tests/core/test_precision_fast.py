"""``precision = "fast"``: half precision may mislead a search, never a verdict."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import unmask
from unmask.evaluation.inspection import inspect_model
from unmask.evaluation.ledger import Ledger
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.preparation import preparing
from unmask.evaluation.preparation.choosing import Purpose
from unmask.evaluation.preparation.forms import Form, Forms
from unmask.evaluation.preparation.preparing import Preparation
from unmask.evaluation.random import SampleRandom
from unmask.evaluation.target import Target
from unmask.evaluation.threat import Ball
from unmask.plugins.catalog import catalog


class Shifted(nn.Module):
    """A form whose second logit is too large by a constant."""

    def __init__(self, model: nn.Module, shift: float) -> None:
        super().__init__()
        self.model, self.shift = model, shift

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images) + torch.tensor([0.0, self.shift])


class Brightness(nn.Module):
    """Class 1 where the mean pixel is above one half."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, images: Tensor) -> Tensor:
        over = images.flatten(1).mean(1) - 0.5
        return torch.stack([-over, over], 1) * self.scale


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Half precision from a search's first question on."""
    monkeypatch.setattr(preparing, "PATIENCE", 0)


def door(shift: float, error: float, patience: int = 0) -> tuple[Ledger, Target]:
    model = Brightness().eval()
    images = torch.full((8, 1, 4, 4), 0.4)
    labels = torch.zeros(8, dtype=torch.long)
    facts = inspect_model(model, images, labels)
    form = Shifted(model, shift)
    forms = Forms({id(model): Form("eager", form, form)}, error=error)
    oracle = Oracle(facts, 8, lambda: (forms, 8), patience)
    kernels = catalog().kernels()
    random = SampleRandom.for_samples(range(8), "model", kernels=kernels)
    ledger = Ledger(oracle, images, labels, Ball("linf", 0.2, (0.0, 1.0), kernels), random)
    return ledger, Target(ledger)


def test_a_break_that_only_the_faster_form_sees_does_not_count() -> None:
    ledger, target = door(shift=0.1, error=0.2)
    images = torch.full((8, 1, 4, 4), 0.48)
    images[0] = 0.52
    assert (target(images).argmax(1) == 1).all()
    assert ledger.broken.tolist() == [True] + [False] * 7
    # The scores are the plain model's.
    torch.testing.assert_close(ledger.best_score[1:], torch.full((7,), 0.04, dtype=torch.float64))
    assert ledger.forwards.tolist() == [1] * 8


def test_a_break_that_the_faster_form_all_but_sees_counts() -> None:
    ledger, target = door(shift=-0.1, error=0.2)
    images = torch.full((8, 1, 4, 4), 0.52)
    assert (target(images).argmax(1) == 0).all()
    assert ledger.broken.all()


def test_a_break_that_the_faster_form_is_far_from_seeing_is_left_to_the_second_search() -> None:
    ledger, target = door(shift=-0.5, error=0.2)
    target(torch.full((8, 1, 4, 4), 0.52))
    assert not ledger.broken.any()


def test_a_broken_sample_keeps_the_example_that_was_confirmed() -> None:
    ledger, target = door(shift=0.1, error=0.2)
    target(torch.full((8, 1, 4, 4), 0.52))
    kept = ledger.best.clone()
    target(torch.full((8, 1, 4, 4), 0.49))
    target(torch.full((8, 1, 4, 4), 0.55))
    assert torch.equal(ledger.best, kept)


def test_a_searchs_first_questions_are_the_plain_models_whatever_is_asked_together() -> None:
    ledger, target = door(shift=100.0, error=0.0, patience=3)
    images = torch.full((8, 1, 4, 4), 0.45)
    plain = Brightness()(images).detach()
    torch.testing.assert_close(target(images), plain)
    # The first has been asked about once by now and is named four times; the second, with the rest, twice.
    rows = torch.tensor([0, 1, 0, 0, 1, 0])
    answers = target.select(rows)(images[:6])
    shifted = plain[:6] + torch.tensor([0.0, 100.0])
    late = torch.tensor([False, False, False, True, False, True])
    torch.testing.assert_close(answers, torch.where(late[:, None], shifted, plain[:6]))
    assert ledger.forwards.tolist() == [5, 3] + [1] * 6
    x = images[:2].clone().requires_grad_()
    target.select(torch.tensor([0, 2]))(x).sum().backward()
    assert ledger.backwards.tolist() == [1, 0, 1] + [0] * 5


@pytest.fixture(scope="module")
def linear():
    generator = torch.Generator().manual_seed(0)
    # The last layer alone would be computed in float32; the one before it changes nothing but the precision.
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 48, bias=False), nn.Linear(48, 8)).eval()
    with torch.no_grad():
        model[1].weight.copy_(torch.eye(48))
        model[2].weight.copy_(torch.randn(8, 48, generator=generator) / 7)
        model[2].bias.zero_()
    images = torch.rand(64, 3, 4, 4, generator=generator)
    with torch.no_grad():
        labels = model(images).argmax(1)
    return model, images, labels


def robust(model: nn.Sequential, images: Tensor, labels: Tensor, epsilon: float) -> np.ndarray:
    """Exact: a linear model's worst case in ball and box."""
    weight, x = model[2].weight.detach().double(), images.flatten(1).double()
    difference = weight[labels][:, None] - weight[None]
    low, high = (x - epsilon).clamp_min(0)[:, None], (x + epsilon).clamp_max(1)[:, None]
    worst = (difference * torch.where(difference > 0, low, high)).sum(2)
    return (worst.scatter(1, labels[:, None], torch.inf).amin(1) > 0).numpy()


@pytest.mark.parametrize("epsilon", [0.02, 0.05])
def test_fast_finds_the_truth_of_a_linear_model(linear, epsilon) -> None:
    model, images, labels = linear
    attacks = {"pgd": unmask.attack("pgd", steps=30, loss="margin")}
    results = unmask.evaluate(model, images, labels, attacks, [epsilon], precision="fast")
    record = json.loads(results.attrs["preparation"])["models"]["model"]
    assert record["precision"] == "bfloat16"
    assert record["margin-error"] > 1e-4
    truth = robust(model, images, labels, epsilon)
    assert 0 < truth.sum() < len(truth)
    found = results.correct.values[0, 0, 0] > 0
    # An attack can only miss; this one, on a linear model, misses next to nothing.
    assert not (truth & ~found).any()
    assert (found != truth).sum() <= 1


def test_near_misses_are_searched_again_and_counted(linear) -> None:
    model, images, labels = linear
    attacks = {"pgd": unmask.attack("pgd", steps=4)}
    epsilons = [0.01, 0.02, 0.03, 0.05]
    fast = unmask.evaluate(model, images, labels, attacks, epsilons, precision="fast")
    error = json.loads(fast.attrs["preparation"])["models"]["model"]["margin-error"]
    twice = fast.searched_twice.values > 0
    assert fast.attrs["precision"] == "fast"
    # The rest of the survivors were farther from the border than the error.
    assert (fast.margin.values[(fast.correct.values > 0) & ~twice] > error).all()
    assert (fast.forwards.values[twice] > 5).all()
    assert (fast.forwards.values[~twice] <= 5).all()
    assert twice.any()


def test_samples_that_are_searched_again_travel_alone_and_find_what_they_would_together(linear) -> None:
    """Few samples come so near the border; a call of one row need not be filled up for them."""
    model, images, labels = linear
    facts = inspect_model(model, images, labels)
    purpose = Purpose("auto", "fast", images[:32], 0.03, (0.0, 1.0), 1e9, gradients=True)
    prepared = Preparation(purpose).of(facts)
    calls: list[int] = []
    forms = prepared.again._forms
    assert forms is not None
    form = forms.of(model, graph=False)
    form.register_forward_hook(lambda module, given, answer: calls.append(len(given[0])))
    with torch.no_grad():
        answers = prepared.again.answer(facts.members[0], images[:5], None)
        torch.testing.assert_close(answers, model(images[:5]))
        assert calls == [1] * 5
        assert torch.equal(answers[3:4], prepared.again.answer(facts.members[0], images[3:4], None))


def test_a_query_limit_holds_over_both_searches(linear) -> None:
    model, images, labels = linear
    attacks = {"pgd": unmask.attack("pgd", steps=6, max_queries=5)}
    fast = unmask.evaluate(model, images, labels, attacks, [0.01, 0.02, 0.03], precision="fast")
    assert fast.forwards.max() <= 5


def test_float32_runs_say_nothing_of_second_searches(linear) -> None:
    model, images, labels = linear
    results = unmask.evaluate(model, images, labels, {"fgsm": "fgsm"}, [0.02])
    assert "searched_twice" not in results
    assert results.attrs["precision"] == "float32"
