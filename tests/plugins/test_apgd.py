"""Auto-PGD: its schedule, its projection, and exactness where the answer is known."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import unmask
from unmask.evaluation.threat import Ball
from unmask_kernels import provider
from unmask_plugins.attacks.apgd import APGD, checkpoints
from unmask_plugins.attacks.ball_and_box import project_both
from unmask_plugins.attacks.targeting import other_classes

EPSILONS = [0.02, 0.05, 0.1, 0.2]


def interior(known, classes, norm, n=40):
    """A linear model, images that no ball of the test brings to the border, labels, distances."""
    model, images, _ = known.linear_problem(n=n, classes=classes)
    weight = model.weight.detach()
    model = known.Linear(weight, -0.5 * weight.sum(1)).eval()
    images = 0.4 + 0.2 * images
    with torch.no_grad():
        logits = model(images).double()
    labels = logits.argmax(1)
    difference = weight[labels][:, None].double() - weight[None].double()
    gap = logits.gather(1, labels[:, None]) - logits
    dual = difference.norm(p={"linf": 1, "l2": 2, "l1": math.inf}[norm], dim=2)
    distances = (gap / dual).scatter(1, labels[:, None], math.inf).amin(1)
    assert distances.median() < 0.35
    return model, images, labels, distances


def middle(distances):
    """A radius that half of the samples stand, not close to any distance."""
    low, high = distances.sort().values[len(distances) // 2 - 1 :][:2].tolist()
    return (low + high) / 2


def test_the_published_checkpoints():
    # Croce & Hein 2020, section 3.1, with N = 100.
    assert checkpoints(100) == (0, 22, 41, 57, 70, 80, 87, 93, 99)


@given(st.integers(1, 2000))
@settings(max_examples=50, deadline=None)
def test_checkpoints_rise_and_stay_within_the_run(steps):
    found = checkpoints(steps)
    assert found[0] == 0
    assert list(found) == sorted(set(found))
    assert found[-1] <= steps
    assert len(found) > 1


@given(
    st.integers(0, 10**6),
    st.sampled_from(["l2", "l1"]),
    st.sampled_from([0.05, 0.5, 2.0, 9.0]),
    st.integers(1, 9),
)
@settings(max_examples=100, deadline=None)
def test_the_projection_onto_ball_and_box_is_the_nearest_point(seed, norm, epsilon, size):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand((3, 1, 1, size), generator=generator, dtype=torch.float64)
    x[0, ..., 0] = 0.0
    points = x + 2 * torch.randn(x.shape, generator=generator, dtype=torch.float64)
    points[1, ..., 0] = x[1, ..., 0]
    ball = Ball(norm, epsilon, (0.0, 1.0), provider)
    found = project_both(points, ball, around=x)
    assert ball.distance(found, x).max() <= epsilon
    assert found.min() >= 0
    assert found.max() <= 1
    # Variational inequality: a point of a convex set is nearest if no other lies in the outward direction.
    for _ in range(20):
        inside = x + torch.randn(x.shape, generator=generator, dtype=torch.float64)
        inside = project_both(inside, ball, around=x)
        outward = ((points - found) * (inside - found)).flatten(1).sum(1)
        assert outward.max() <= 1e-8 * max(1.0, epsilon)


@pytest.mark.parametrize(("loss", "astray"), [("margin", 0), ("dlr", 1)])
@pytest.mark.parametrize("classes", [2, 3, 4, 10])
def test_the_targeted_form_is_exact_on_linear_models_at_the_border_of_the_box(known, classes, loss, astray):
    # The quotient of DLR also rises when its denominator does, which can lead a sample astray.
    model, images, labels = known.linear_problem(classes=classes)
    attack = unmask.attack("apgd", loss=loss, targets=9, steps=20)
    found = unmask.evaluate(model, images, labels, {"a": attack}, EPSILONS)
    for epsilon in EPSILONS:
        truth = known.robust_linf(model, images, labels, epsilon).numpy()
        truth[:3] = False
        standing = found.correct.sel(epsilon=epsilon).values.ravel() == 1
        assert (standing | ~truth).all()
        assert (standing & ~truth).sum() <= astray


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("loss", ["ce", "margin", "dlr"])
def test_two_classes_are_exact_in_every_norm_with_every_loss(known, norm, loss):
    model, images, labels, distances = interior(known, 2, norm)
    epsilon = middle(distances)
    attack = unmask.attack("apgd", loss=loss, steps=50)
    found = unmask.evaluate(model, images, labels, {"a": attack}, [epsilon], norm)
    np.testing.assert_array_equal(found.correct.values.ravel(), distances.numpy() > epsilon)


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_targets_make_many_classes_exact_in_the_other_norms(known, norm):
    model, images, labels, distances = interior(known, 5, norm)
    epsilon = middle(distances)
    attack = unmask.attack("apgd", loss="margin", targets=99, steps=50, multi_epsilon=norm == "l1")
    found = unmask.evaluate(model, images, labels, {"a": attack}, [epsilon], norm)
    np.testing.assert_array_equal(found.correct.values.ravel(), distances.numpy() > epsilon)


def test_more_targets_than_classes_are_all_the_others(known):
    model, images, labels = known.linear_problem(classes=4)
    found = unmask.evaluate(
        model,
        images,
        labels,
        {n: unmask.attack("apgd", loss="dlr", targets=t, steps=5) for n, t in (("3", 3), ("50", 50))},
        [1e-6],
    )
    spent = found.forwards.where(found.clean_correct == 1)
    assert set(spent.values[np.isfinite(spent.values)]) == {3 * (1 + 6 + 1)}
    assert (spent.sel(attack="3") == spent.sel(attack="50")).where(found.clean_correct == 1, True).all()


def test_a_run_costs_a_query_a_step_and_one_at_each_end(known):
    model, images, labels = known.linear_problem()
    found = unmask.evaluate(
        model, images, labels, {"a": unmask.attack("apgd", steps=7, restarts=3)}, [1e-7]
    ).isel(sample=slice(3, None))
    assert set(found.forwards.values.ravel()) == {3 * (7 + 2)}
    assert set(found.backwards.values.ravel()) == {3 * (7 + 1)}


def test_another_gradient_source_serves_the_targeted_form(known):
    # On an affine model differences give the gradient, so the same examples fall.
    model, images, labels = known.linear_problem(n=20)
    attacks = {
        name: unmask.attack("apgd", loss="margin", targets=9, steps=12, gradient=gradient)
        for name, gradient in (("autograd", "autograd"), ("differences", {"use": "finite-difference"}))
    }
    found = unmask.evaluate(model, images, labels, attacks, [0.1])
    truth = known.robust_linf(model, images, labels, 0.1)
    truth[:3] = False
    for name in attacks:
        np.testing.assert_array_equal(found.correct.sel(attack=name).values.ravel(), truth.numpy())
    assert (found.backwards.sel(attack="differences") == 0).all()


def test_members_are_averaged_exactly(known):
    members = [known.linear_problem(seed=s)[0] for s in range(3)]
    _, images, labels = known.linear_problem()
    mixed = unmask.RandomizedEnsemble(members).eval()
    found = unmask.evaluate(mixed, images, labels, {"a": unmask.attack("apgd", eot=20, steps=10)}, [0.1])
    assert set(np.unique(found.correct.values * 3).round(12)) <= {0.0, 1.0, 2.0, 3.0}
    # One evaluation for each member at the start and in each step, one draw at the end.
    assert found.forwards.max() == 3 * 11 + 1


def conv_net(seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 25, 5)
        ).eval()


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_the_outcome_does_not_depend_on_the_batch(norm):
    model = conv_net()
    images = torch.rand(13, 1, 5, 5, generator=torch.Generator().manual_seed(0))
    labels = model(images).argmax(1)
    attacks = {
        "apgd": {"use": "apgd", "steps": 9, "restarts": 2},
        "apgd-t": {"use": "apgd", "steps": 9, "loss": "dlr", "targets": 3, "multi-epsilon": True},
        "fab": {"use": "fab", "steps": 6, "restarts": 2},
        "fab-t": {"use": "fab-t", "steps": 6, "targets": 2},
    }
    epsilon = {"linf": 0.02, "l2": 0.1, "l1": 0.5}[norm]
    whole, single = (
        unmask.evaluate(model, images, labels, attacks, [epsilon], norm, batch_size=size, keep_examples=True)
        for size in (None, 1)
    )
    assert set(whole.message.values.ravel()) == {""}
    for variable in ("correct", "margin", "distance", "forwards", "backwards", "status", "adversarial"):
        np.testing.assert_array_equal(single[variable], whole[variable], err_msg=variable)
    assert 0 < float(whole.correct.sel(attack="apgd").mean()) < 1
    assert (whole.status <= 1).all()


def test_a_loss_that_is_not_a_number_does_not_stop_the_search():
    class Cracked(nn.Module):
        """Logits that are not a number in a part of the ball."""

        def forward(self, images):
            v = images.flatten(1).sum(1)
            good = torch.stack([0.5 - v, v - 0.5], 1)
            return torch.where((v > 0.42)[:, None] & (v < 0.44)[:, None], torch.nan, good)

    images = torch.full((4, 1, 1, 1), 0.3)
    labels = torch.zeros(4, dtype=torch.int64)
    found = unmask.evaluate(Cracked().eval(), images, labels, {"a": unmask.attack("apgd", steps=5)}, [0.3])
    assert (found.correct == 0).all()


def test_other_classes_are_ranked_without_the_label():
    logits = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, -math.inf], [math.nan, 1.0, 1.0]])
    assert other_classes(logits, torch.tensor([0, 2, 1])).tolist() == [[2, 1], [1, 0], [2, 0]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 0}, "steps"),
        ({"loss": "hinge"}, "loss"),
        ({"targets": -1}, "targets"),
        ({"rho": 1.5}, "rho"),
        ({"target": 3}, "targeted"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(unmask.errors.UserError, match=said):
        unmask.attack("apgd", **options)


def test_the_settings_of_a_result_build_the_attack_again():
    made = unmask.attack("apgd", loss="dlr", targets=9, gradient="bypass")
    again = unmask.attack(made.use, **made.options)
    assert attrs.asdict(again.attack) == attrs.asdict(made.attack)
    assert isinstance(again.attack, APGD)


@pytest.mark.parametrize("name", ["apgd", "fab", "fab-t"])
def test_a_target_of_the_users_own_is_what_counts(known, name):
    model, images, labels, _ = interior(known, 4, "linf")
    keep = labels != 2
    images, labels = images[keep], labels[keep]
    options = {"loss": "margin"} if name == "apgd" else {}
    attack = unmask.attack(name, steps=20, targeted=True, target=2, **options)
    found = unmask.evaluate(model, images, labels, {"a": attack}, [0.3])
    # FAB projects onto one boundary at a time and may go to and fro between two.
    assert float(found.target_reached.mean()) >= (1.0 if name == "apgd" else 0.9)
    assert ((found.prediction == 2) == (found.target_reached == 1)).all()
