"""Gradient sources that sample directions: unbiased where that can be known, and attacks run on them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unmask


def first_logit(logits, goals):
    return logits[:, 0]


@pytest.mark.parametrize("name", ["spsa", "nes"])
def test_the_estimate_is_unbiased_on_affine_functions(known, name):
    model, images, labels = known.linear_problem(n=400, shape=(2, 2, 3))
    model, images = model.double(), images.double()
    task = known.task_of(model, images, labels)
    samples = 50
    slope = unmask.gradient(name, samples=samples)(task, task.x, first_logit)
    w = model.weight[0].detach()
    # Every image's estimate is an independent draw: its mean has the truth within five standard errors, and
    # its variance is what the directions' moments say.
    estimates = slope.gradient.flatten(1)
    spread = (w.square().sum() - w.square() if name == "spsa" else w.square().sum() + w.square()) / samples
    error = (spread / len(images)).sqrt()
    assert ((estimates.mean(0) - w).abs() <= 5 * error).all()
    torch.testing.assert_close(estimates.var(0), spread, rtol=0.4, atol=0)
    torch.testing.assert_close(slope.loss, model(images)[:, 0].detach())
    assert (task.target._ledger.forwards == 2 * samples + 1).all()


def test_one_variable_is_estimated_exactly_by_spsa(known):
    model, images, labels = known.linear_problem(n=5, shape=(1, 1, 1), classes=2)
    task = known.task_of(model.double(), images.double(), labels)
    slope = unmask.gradient("spsa", samples=1)(task, task.x, first_logit)
    torch.testing.assert_close(
        slope.gradient.flatten(), model.weight[0].detach().expand(5), rtol=1e-9, atol=0
    )


@pytest.mark.parametrize("name", ["spsa", "nes"])
def test_a_row_draws_the_same_directions_in_any_company(known, name):
    model, images, labels = known.linear_problem(n=12)
    source = unmask.gradient(name, samples=7)
    whole = source(known.task_of(model, images, labels), images, first_logit).gradient
    task = known.task_of(model, images, labels)
    rows = torch.tensor([7, 2])
    part = source(task.select(rows), images[rows], first_logit).gradient
    torch.testing.assert_close(part, whole[rows], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["spsa", "nes"])
@pytest.mark.parametrize("targeted", [False, True])
def test_pgd_on_it_needs_no_backward_pass(known, name, targeted):
    model, images, labels = known.linear_problem(n=20, classes=3)
    aim = {"targeted": True, "target": 2} if targeted else {}
    attack = unmask.attack("pgd", steps=8, gradient={"use": name, "samples": 30}, loss="margin", **aim)
    results = unmask.evaluate({"m": model}, images, labels, {"a": attack}, [0.3])
    assert (results.message == "").all()
    assert (results.backwards == 0).all()
    assert str(results.access.item()) == "scores"
    assert str(results.gradient.item()) == name
    if targeted:
        assert np.nanmean(results.target_reached.values) > 0.5
    else:
        assert results.correct.mean() < 0.2
