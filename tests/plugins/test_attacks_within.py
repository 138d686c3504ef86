"""Searches within a ball on affine models, where it is known which samples are robust."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unmask
from unmask import components

WIDE = (-5.0, 6.0)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("attack", ["pgd", "fgsm"])
def test_targeted_searches_reach_exactly_what_can_be_reached(known, robust, norm, attack):
    model, images, _ = known.linear_problem(n=40, shape=(2, 3, 3), classes=2)
    labels = model(images).argmax(1).detach()
    epsilon = {"linf": 0.1, "l2": 0.4, "l1": 1.0}[norm]
    options = {"steps": 40, "schedule": "linear"} if attack == "pgd" else {}
    aimed = unmask.attack(
        attack, loss="margin", targeted=True, target=[1 - y for y in labels.tolist()], **options
    )
    free = unmask.attack(attack, loss="margin", **options)
    results = unmask.evaluate(
        {"m": model}, images, labels, {"aimed": aimed, "free": free}, [epsilon], norm, WIDE
    )
    truth = robust(model, images, labels, epsilon, norm, WIDE)
    assert 0 < truth.sum() < len(truth)
    np.testing.assert_array_equal(results.correct.sel(attack="aimed").values[0, 0] == 1, truth)
    np.testing.assert_array_equal(
        results.target_reached.sel(attack="aimed").values[0, 0], (~truth).astype(float)
    )
    assert np.isnan(results.target_reached.sel(attack="free").values).all()


@pytest.mark.parametrize("loss", ["ce", "margin", "dlr"])
@pytest.mark.parametrize("attack", ["pgd", "square"])
def test_a_target_is_climbed_towards_and_not_just_away_from_the_label(known, attack, loss):
    model, images, _ = known.linear_problem(n=40, classes=5)
    labels = model(images).argmax(1).detach()
    options = {"steps": 30, "restarts": 3} if attack == "pgd" else {"queries": 300}
    runs = {f"to {k}": unmask.attack(attack, loss=loss, targeted=True, target=k, **options) for k in (0, 3)}
    results = unmask.evaluate({"m": model}, images, labels, runs, [0.9])
    for k in (0, 3):
        free = (labels != k).numpy()
        reached = results.target_reached.sel(attack=f"to {k}").values[0, 0]
        predicted = results.prediction.sel(attack=f"to {k}").values[0, 0]
        assert np.isnan(reached[~free]).all()
        np.testing.assert_array_equal(reached[free] == 1, predicted[free] == k)
        assert reached[free].mean() > 0.7


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_square_breaks_no_robust_sample_and_most_that_are_half_a_radius_away(known, robust, norm):
    generator = torch.Generator().manual_seed(2)
    # Weights that vary slowly over the image, as those of networks do; hills are made for them.
    rough = torch.randn(3, 2, 2, 2, generator=generator)
    weight = torch.nn.functional.interpolate(rough, size=(7, 6), mode="bilinear").flatten(1) / 6
    model = known.Linear(weight).eval()
    images = torch.rand(30, 2, 7, 6, generator=generator)
    labels = model(images).argmax(1).detach()
    epsilons = {"l2": [1.0, 2.0], "l1": [7.0, 14.0]}[norm]
    results = unmask.evaluate(
        {"m": model}, images, labels, {"s": unmask.attack("square", queries=250)}, epsilons, norm
    )
    small, large = (robust(model, images, labels, epsilon, norm) for epsilon in epsilons)
    found = results.correct.values[0, 0] == 1
    assert (found[0] >= small).all()
    assert (found[1] >= large).all()
    assert small.sum() > found[1].sum(), "twice the radius breaks more than the exact attack does at this one"
    assert (~small).sum() > 5


@pytest.mark.parametrize(("norm", "epsilon"), [("linf", 0.1), ("l2", 0.8), ("l1", 3.0)])
def test_square_is_as_strong_as_the_published_one(digits_net, norm, epsilon):
    published = pytest.importorskip("pyautoattack.square")
    net, images, labels = digits_net
    right = net(images).argmax(1) == labels
    name = {"linf": "Linf", "l2": "L2", "l1": "L1"}[norm]
    theirs, ours = [], []
    for seed in (0, 1):
        state = torch.random.get_rng_state()
        reference = published.SquareAttack(
            net, p_init=0.8, n_queries=150, eps=epsilon, norm=name, n_restarts=1, seed=seed, device="cpu",
            resc_schedule=True,
        )  # fmt: skip
        found = reference.perturb(images[right], labels[right])
        torch.random.set_rng_state(state)
        theirs.append(int((net(found).argmax(1) == labels[right]).sum()))
        results = unmask.evaluate(
            {"m": net},
            images,
            labels,
            {"s": unmask.attack("square", queries=150)},
            [epsilon],
            norm,
            seed=seed,
        )
        ours.append(int(results.correct.sum()))
    assert sum(ours) <= sum(theirs) + 2


@pytest.fixture(scope="module")
def digits_net(small_digits_net):
    test = components.data("digits")
    return small_digits_net(epochs=4), test.images[:50], test.labels[:50]


def test_a_schedule_takes_the_last_step_to_nothing(known):
    model, images, labels = known.linear_problem()
    steps = {}
    for schedule in ("constant", "linear", "cosine"):
        attack = unmask.attack("pgd", steps=4, step_size=0.01, schedule=schedule, random_start=False).attack
        task = known.task_of(model, images, labels, "linf", 1.0, bounds=(-9.0, 9.0))
        state, moved = attack.start(task), []
        for _ in range(4):
            after = attack.step(task, state)
            moved.append(float((after.x - state.x).abs().max()))
            state = after
        steps[schedule] = moved
    assert steps["constant"] == pytest.approx([0.01] * 4, abs=1e-6)
    assert steps["linear"] == pytest.approx([0.01, 0.0075, 0.005, 0.0025], abs=1e-6)
    half = 2**0.5 / 2
    assert steps["cosine"] == pytest.approx([0.01, 0.005 * (1 + half), 0.005, 0.005 * (1 - half)], abs=1e-6)


@pytest.mark.parametrize(("sparsity", "moved"), [(1.0, 1), (0.75, 3), (0.0, 12)])
def test_l1_steps_move_a_share_of_the_coordinates_that_the_box_lets_move(known, sparsity, moved):
    model, images, labels = known.linear_problem(shape=(3, 2, 2))
    images = 0.5 + (images - 0.5) * 0.1
    task = known.task_of(model, images, labels, "l1", 0.4)
    attack = unmask.attack("pgd", step_size=0.1, sparsity=sparsity, random_start=False).attack
    step = attack.step(task, attack.start(task)).x - images
    assert ((step != 0).flatten(1).sum(1) == moved).all()
    torch.testing.assert_close(step.abs().flatten(1).sum(1), torch.full((40,), 0.1))
    # At a corner of the box that the gradient points out of, nothing moves.
    from unmask_plugins.attacks.steepest import climbed

    corner = known.task_of(model, torch.ones_like(images), labels, "l1", 0.4)
    assert torch.equal(climbed(corner, corner.x, torch.ones_like(images), 0.1, 0.5), corner.x)
