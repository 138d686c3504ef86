"""l0 as a run's norm: the number of pixel values that differ, from the search to the report."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unmask
from unmask.errors import UserError
from unmask.evaluation.threat import Ball
from unmask.manifest.reading import parse_manifest
from unmask.reports.text import render_text
from unmask_kernels import provider


def problem(known, classes: int, n: int = 40):
    """A linear model, 8-bit images of which many pixels lie on the border, and labels some values away."""
    model, images, _ = known.linear_problem(n=n, shape=(3, 5, 5), classes=classes, seed=classes)
    generator = torch.Generator().manual_seed(classes)
    images = (0.5 + 0.5 * torch.randn(images.shape, generator=generator)).clamp(0, 1)
    images = (images * 255).round() / 255
    with torch.no_grad():
        labels = model(images).argmax(1)
    return model, images, labels


def fewest(model, images, labels) -> np.ndarray:
    """The fewest values whose change turns the prediction: those of largest slope times way to the border."""
    weight, logits = model.weight.detach().double(), model(images).detach().double()
    counts = torch.full((len(images),), torch.inf, dtype=torch.float64)
    x = images.flatten(1).double()
    for k in range(len(weight)):
        slope = weight[k] - weight[labels]
        gains = (torch.where(slope > 0, 1 - x, x) * slope.abs()).sort(descending=True).values.cumsum(1)
        gap = logits.gather(1, labels[:, None]) - logits[:, k : k + 1]
        count = (gains <= gap).sum(1) + 1.0
        counts = torch.where((labels != k) & (count <= x.shape[1]), torch.minimum(counts, count), counts)
    return counts.numpy()


@pytest.mark.parametrize(("classes", "ratio"), [(2, 1.0), (3, 1.2), (4, 1.2), (10, 1.2)])
def test_fmn_finds_the_fewest_values_of_a_linear_model(known, classes, ratio):
    model, images, labels = problem(known, classes)
    truth = fewest(model, images, labels)
    assert truth.max() >= 5
    found = unmask.evaluate(model, images, labels, {"a": unmask.attack("fmn", steps=100)}, [1, 3, 75], "l0")
    assert (found.message == "").all()
    distance = found.distance.sel(epsilon=75).values[0, 0]
    assert (distance >= truth).all()
    # With more than two classes the nearest one may not be that of the largest other logit.
    assert (distance <= np.ceil(ratio * truth)).all()
    assert (distance == truth).mean() >= 0.8
    for radius in (1, 3):
        np.testing.assert_array_equal(found.correct.sel(epsilon=radius).values[0, 0] == 1, distance > radius)


def test_targets_are_reached_by_the_fewest_values(known):
    model, images, labels = problem(known, 2, n=16)
    aimed = unmask.attack("fmn", steps=60, targeted=True, target=(1 - labels).tolist())
    found = unmask.evaluate(model, images, labels, {"a": aimed}, [75], "l0")
    np.testing.assert_array_equal(found.distance.values.ravel(), fewest(model, images, labels))
    assert (found.target_reached == 1).all()


def test_the_run_is_in_numbers_of_values(known):
    model, images, labels = problem(known, 4, n=12)
    found = unmask.evaluate(
        model, images, labels, {"fmn": unmask.attack("fmn", steps=40)}, [0, 2, 75], "l0",
        keep_examples=True, quantize="8bit",
    )  # fmt: skip
    changed = (found.adversarial.values[0, 0] != images.numpy()).reshape(3, 12, -1).sum(-1)
    assert (changed <= found.epsilon.values[:, None]).all()
    assert (changed[0] == 0).all()
    reached = np.isfinite(found.distance.sel(epsilon=75).values[0, 0])
    np.testing.assert_array_equal(changed[2][reached], found.distance.sel(epsilon=75).values[0, 0][reached])
    # The images are 8-bit: what is left alone stays so, and every example has an 8-bit version.
    assert (found.quantized == 1).all()
    distortion = found.unmask.minimal_distortion()
    assert float(distortion["median"].squeeze()) == np.median(found.distance.sel(epsilon=75).values)
    text = render_text(found)
    assert "l0" in text
    assert "75" in text


def test_a_ball_of_values_is_projected_on_drawn_from_and_measured(known):
    ball = Ball("l0", 3.0, (0.0, 1.0), provider)
    model, images, labels = known.linear_problem(n=50, shape=(2, 4, 4))
    task = known.task_of(model, images, labels, "l0", 3.0)
    drawn = ball.random_point(images, task.random)
    assert set(ball.distance(drawn, images).tolist()) == {3.0}
    # Every place is drawn about as often: 150 draws over 32 places.
    assert ((drawn != images).flatten(1).sum(0) > 0).all()
    far = ball.project(images + torch.randn(images.shape), around=images)
    assert ball.distance(far, images).max() <= 3


def brightest(target, images, labels, budget, random):
    """Sets the values of largest slope to the border of the box: a search within a ball of values."""
    x = images.clone().requires_grad_()
    (slope,) = torch.autograd.grad(
        (target(x).logsumexp(1) - target(x).gather(1, labels[:, None])[:, 0]).sum(), x
    )
    return budget.project(images + 10 * slope, around=images)


brightest.norms = ("l0",)


def test_a_search_of_ones_own_takes_part(known):
    model, images, labels = problem(known, 2)
    found = unmask.evaluate(
        model, images, labels, {"mine": brightest, "fmn": unmask.attack("fmn", steps=60)}, [1, 3], "l0"
    )
    assert (found.message == "").all()
    assert (found.correct.sel(attack="mine") >= found.correct.sel(attack="fmn")).all()
    assert float(found.correct.sel(attack="mine", epsilon=3).mean()) < 0.8
    assert set(np.unique(found.distance.sel(attack="mine"))) <= {0.0, 1.0, 2.0, 3.0}


def test_fractions_of_a_value_and_attacks_without_the_norm_are_refused(known):
    model, images, labels = problem(known, 2, n=3)
    with pytest.raises(UserError, match=r"epsilons\[0\].*whole number"):
        unmask.evaluate(model, images, labels, {"a": "fmn"}, ["8/255"], "l0")
    with pytest.raises(UserError, match="not defined for norm 'l0'"):
        unmask.evaluate(model, images, labels, {"a": "pgd"}, [3], "l0")


MANIFEST = """
name = "few"
norm = "l0"
epsilons = [EPSILON]
[data]
use = "digits"
[models.m]
use = "small-cnn"
[attacks.a]
use = "ATTACK"
"""


@pytest.mark.parametrize(
    ("epsilon", "attack", "said"),
    [('"8/255"', "fmn", "whole number"), ("2", "pgd", "does not know the norm 'l0'"), ("2", "fmn", None)],
)
def test_a_manifest_says_values(epsilon, attack, said):
    from unmask.manifest.checking import check_manifest

    text = MANIFEST.replace("EPSILON", epsilon).replace("ATTACK", attack)
    if said is None:
        manifest = parse_manifest(text)
        check_manifest(manifest)
        assert (manifest.norm, manifest.epsilons) == ("l0", (2.0,))
        return
    with pytest.raises(UserError, match=said):
        check_manifest(parse_manifest(text))
