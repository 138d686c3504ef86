"""FAB: its projection against an exact solver, and distances on models where they are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import unmask
from unmask_plugins.attacks.hyperplane import shortest_step


def exact_size(x, w, gain, norm):
    """The smallest step in linf or l1 by linear programming, None where the box does not allow it."""
    d = len(x)
    bounds = [(-float(v), 1 - float(v)) for v in x]
    if norm == "linf":
        equal = np.append(w, 0)[None]
        less = np.block([[np.eye(d), -np.ones((d, 1))], [-np.eye(d), -np.ones((d, 1))]])
        cost, limits = np.append(np.zeros(d), 1), [*bounds, (0, None)]
    else:
        equal = np.append(w, np.zeros(d))[None]
        less = np.block([[np.eye(d), -np.eye(d)], [-np.eye(d), -np.eye(d)]])
        cost, limits = np.append(np.zeros(d), np.ones(d)), [*bounds, *[(0, None)] * d]
    found = linprog(cost, less, np.zeros(2 * d), equal, [gain], limits)
    return found.fun if found.success else None


@given(st.integers(0, 10**6), st.sampled_from(["linf", "l1"]), st.floats(-2, 2))
@settings(max_examples=60, deadline=None)
def test_the_step_to_a_hyperplane_is_the_shortest(seed, norm, gain):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand((1, 1, 1, 5), generator=generator, dtype=torch.float64)
    w = torch.randn((1, 1, 1, 5), generator=generator, dtype=torch.float64)
    x[..., 0], w[..., 1] = 0.0, 0.0
    step = shortest_step(x, w, torch.tensor([gain], dtype=torch.float64), norm, (0.0, 1.0)).flatten()
    assert ((x.flatten() + step) >= -1e-12).all()
    assert ((x.flatten() + step) <= 1 + 1e-12).all()
    truth = exact_size(x.flatten().numpy(), w.flatten().numpy(), gain, norm)
    gained = float((w.flatten() * step).sum())
    if truth is None:
        assert abs(gained) < abs(gain)
        corner = torch.where(w.flatten() * gain > 0, 1 - x.flatten(), -x.flatten()) * (w.flatten() != 0)
        torch.testing.assert_close(step, corner)
        return
    assert gained == pytest.approx(gain, abs=1e-9)
    assert float(step.abs().amax() if norm == "linf" else step.abs().sum()) == pytest.approx(truth, abs=1e-7)


@given(st.integers(0, 10**6), st.floats(0.01, 1.5))
@settings(max_examples=60, deadline=None)
def test_the_l2_step_meets_the_optimality_conditions(seed, gain):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand((1, 6), generator=generator, dtype=torch.float64)
    w = torch.randn((1, 6), generator=generator, dtype=torch.float64)
    step = shortest_step(x, w, torch.tensor([gain], dtype=torch.float64), "l2", (0.0, 1.0))[0]
    room = torch.where(w[0] > 0, 1 - x[0], x[0])
    if float((w[0].abs() * room).sum()) < gain:
        torch.testing.assert_close(step, room * w[0].sign())
        return
    assert float((w[0] * step).sum()) == pytest.approx(gain, abs=1e-9)
    # Free coordinates are proportional to w, the others lie at the border and would go farther.
    free = step.abs() < room - 1e-9
    pace = (step.abs() / w[0].abs())[free]
    if len(pace):
        assert float(pace.max() - pace.min()) < 1e-9
        assert (step.abs()[~free] <= float(pace[0]) * w[0].abs()[~free] + 1e-9).all()


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("name", ["fab", "fab-t"])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_distances_on_linear_models_are_within_a_hundredth(known, norm, name, classes):
    model, images, _ = known.linear_problem(classes=classes)
    weight = model.weight.detach()
    model = known.Linear(weight, -0.5 * weight.sum(1)).eval()
    images = 0.4 + 0.2 * images
    with torch.no_grad():
        logits = model(images).double()
    labels = logits.argmax(1)
    difference = weight[labels][:, None].double() - weight[None].double()
    gap = logits.gather(1, labels[:, None]) - logits
    dual = difference.norm(p={"linf": 1, "l2": 2, "l1": math.inf}[norm], dim=2)
    truth = (gap / dual).scatter(1, labels[:, None], math.inf).amin(1).numpy()
    found = unmask.evaluate(model, images, labels, {"a": unmask.attack(name, steps=20)}, [0.5], norm)
    distance = found.distance.values.ravel()
    # Farther away the border of the box counts too.
    inside = (truth > 1e-3) & (truth < 0.35)
    assert inside.sum() >= 30
    assert (distance >= truth * (1 - 1e-5)).all()
    assert (distance[inside] <= truth[inside] * 1.01).all()


def test_one_search_serves_every_radius(known):
    model, images, labels = known.linear_problem()
    found = unmask.evaluate(model, images, labels, {"a": unmask.attack("fab-t", steps=20)}, [0.02, 0.1, 0.3])
    for epsilon in found.epsilon.values:
        truth = known.robust_linf(model, images, labels, epsilon)
        truth[:3] = False
        np.testing.assert_array_equal(found.correct.sel(epsilon=epsilon).values.ravel(), truth.numpy())
    assert (found.forwards.isel(epsilon=0) == found.forwards.isel(epsilon=2)).all()
    assert found.search.values.tolist() == ["nearest"]


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_random_starts_leave_the_image_and_find_it_too(known, norm):
    model, images, labels = known.linear_problem(n=20)
    found = unmask.evaluate(
        model, images, labels, {r: unmask.attack("fab", steps=10, restarts=int(r)) for r in "13"}, [9.0], norm
    )
    one, three = found.distance.sel(attack="1"), found.distance.sel(attack="3")
    assert (three <= one).all()
    right = found.clean_correct.values[0] == 1
    assert (found.forwards.values[0, 1, 0][right] > 2.9 * found.forwards.values[0, 0, 0][right]).all()


def test_where_no_example_exists_none_is_claimed(known):
    model = known.Constant(1.0, 0.0, 0.0).eval()
    images = torch.rand(5, 1, 2, 2)
    found = unmask.evaluate(
        model, images, torch.zeros(5, dtype=torch.int64), {"f": "fab", "t": "fab-t"}, [0.5]
    )
    assert (found.correct == 1).all()
    assert np.isinf(found.distance).all()
    assert set(found.message.values.ravel()) == {""}


@pytest.mark.parametrize("options", [{"beta": 1.2}, {"eta": 0.9}, {"alpha_max": -0.1}, {"steps": 0}])
def test_wrong_options_are_refused(options):
    with pytest.raises(unmask.errors.UserError, match=next(iter(options))):
        unmask.attack("fab", **options)
