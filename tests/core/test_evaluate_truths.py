"""`evaluate` against truths: closed forms, coins, enumerated members, zero gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unmask

EPSILONS = ["0", "0.02", "0.05", "0.1", "0.3"]


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
@pytest.mark.parametrize("shape", [(1, 1, 6), (3, 2, 2), (2, 3, 5)])
def test_margin_pgd_and_square_leave_exactly_the_samples_that_are_robust(known, classes, shape):
    model, images, labels = known.linear_problem(classes=classes, shape=shape)
    results = unmask.evaluate(
        {"linear": model},
        images,
        labels,
        {
            # The margin is a maximum of affine functions: a restart may climb towards the wrong class.
            "pgd": unmask.attack("pgd", loss="margin", steps=15, restarts=12),
            "square": unmask.attack("square", queries=600),
            "fgsm": unmask.attack("fgsm", loss="margin"),
        },
        EPSILONS,
    )
    for epsilon in results.epsilon.values:
        truth = known.robust_linf(model, images, labels, epsilon).numpy()
        found = results.correct.sel(model="linear", epsilon=epsilon)
        for attack in ("pgd", "square", "fgsm"):
            assert (found.sel(attack=attack).values >= truth).all(), f"{attack} broke a robust sample"
        if classes == 2:
            # With two classes the loss is monotone and one step is exact up to rounding at the border.
            assert np.array_equal(found.sel(attack="fgsm").values, truth)
        assert np.array_equal(found.sel(attack="pgd").values, truth)
        assert abs(found.sel(attack="square").values.sum() - truth.sum()) <= 1


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_interior_linear_distances_are_margin_over_dual_norm(known, norm):
    """Two classes, images far from the box: robust exactly where margin > epsilon * |w|_dual."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(2, 12, generator=generator)
    model = known.Linear(weight).eval()
    images = 0.5 + 0.02 * torch.randn(60, 3, 2, 2, generator=generator)
    labels = model(images).argmax(1).detach()
    difference = (weight[0] - weight[1]).double()
    dual = {"linf": difference.abs().sum(), "l2": difference.norm(), "l1": difference.abs().max()}[norm]
    margin = (images.flatten(1).double() @ difference).abs()
    epsilons = [float(q) for q in torch.quantile(margin / dual, torch.tensor([0.2, 0.5, 0.9]).double())]
    results = unmask.evaluate(
        {"linear": model},
        images,
        labels,
        {"fgsm": "fgsm", "pgd": unmask.attack("pgd", steps=40)},
        epsilons,
        norm=norm,
        bounds=(-10.0, 10.0),
    )
    for epsilon in epsilons:
        truth = (margin > epsilon * dual).numpy()
        for attack in ("fgsm", "pgd"):
            found = results.correct.sel(model="linear", attack=attack, epsilon=epsilon).values
            clear = np.abs(margin.numpy() / float(dual) / epsilon - 1) > 1e-4
            assert np.array_equal(found[clear], truth[clear]), attack
    reached = results.distance.where(results.status == 0)
    assert float((reached - results.epsilon).max()) <= 0.0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_coin_scores_its_probability_under_any_number_of_attacks(known, count):
    attacks = dict(
        list(
            {
                "pgd": unmask.attack("pgd", steps=4, restarts=2),
                "square": unmask.attack("square", queries=20),
                "fgsm": "fgsm",
            }.items()
        )[:count]
    )
    images = torch.rand(60, 1, 2, 2)
    results = unmask.evaluate(
        {"coin": known.Coin(0.9).eval()}, images, torch.zeros(60, dtype=torch.long), attacks, [0.1, 0.3]
    )
    assert str(results.randomness.item()) == "drawn"
    assert int(results.draws.item()) > 0
    interval = results.unmask.interval("worst_case", level=0.99)
    assert (interval.lower <= 0.9).all()
    assert (interval.upper >= 0.9).all()
    # 60 samples of 96 draws: the standard error of the mean is 0.004.
    np.testing.assert_allclose(results.unmask.clean_accuracy().values, 0.9, atol=0.016)
    np.testing.assert_allclose(results.unmask.robust_accuracy().values, 0.9, atol=0.016)
    np.testing.assert_allclose(results.unmask.worst_case().values, 0.9, atol=0.016)


def test_an_ensemble_scores_the_exact_expectation_over_its_members(known):
    members = [known.Constant(1.0, 0.0), known.Constant(1.0, 0.0), known.Constant(0.0, 100.0)]
    mixed = unmask.RandomizedEnsemble(members).eval()
    images = torch.rand(7, 1, 2, 2)
    results = unmask.evaluate(
        {"mixed": mixed},
        images,
        torch.zeros(7, dtype=torch.long),
        {
            "pgd": unmask.attack("pgd", steps=3),
            "eot": unmask.attack("pgd", steps=3, eot=5),
            "square": "square",
        },
        [0.1],
        max_queries=30,
    )
    assert str(results.randomness.item()) == "enumerated"
    assert (results.clean_correct == 2 / 3).all()
    assert (results.correct == 2 / 3).all()
    assert results.unmask.robust_accuracy().values.tolist() == [[[pytest.approx(2 / 3, abs=1e-15)]] * 3]


def test_unequal_probabilities_weigh_the_members(known):
    mixed = unmask.RandomizedEnsemble(
        [known.Constant(1.0, 0.0), known.Constant(0.0, 1.0)], [0.25, 0.75]
    ).eval()
    results = unmask.evaluate(
        {"mixed": mixed}, torch.rand(3, 1, 2, 2), torch.tensor([0, 1, 1]), {"fgsm": "fgsm"}, [0.1]
    )
    assert results.clean_correct.values[0].tolist() == [0.25, 0.75, 0.75]
    assert results.clean_prediction.values[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("at", ["input", "front-end"])
def test_a_layer_with_zero_backward_is_masked_and_bypass_equals_the_bare_model(known, at):
    model, images, labels = known.linear_problem(n=60)
    guarded = unmask.Defended(known.ZeroBackward(), model).eval()
    attacks = {
        "pgd": unmask.attack("pgd", steps=20),
        "bypass": unmask.attack(
            "pgd", steps=20, gradient=unmask.gradient("bypass", at=at), random_start=False
        ),
        "transfer": unmask.attack("transfer", source="plain"),
    }
    results = unmask.evaluate({"plain": model, "guarded": guarded}, images, labels, attacks, ["0.1", "0.2"])
    bare = unmask.evaluate(
        {"plain": model},
        images,
        labels,
        {"bypass": unmask.attack("pgd", steps=20, random_start=False)},
        ["0.1", "0.2"],
    )
    through = results.sel(model="guarded", attack="bypass")
    alone = bare.sel(model="plain", attack="bypass")
    for variable in ("correct", "margin", "prediction", "distance", "forwards", "backwards"):
        assert np.array_equal(through[variable].values, alone[variable].values), variable
    assert str(results.message.sel(model="plain", attack="bypass").values[0])
    assert (results.status.sel(model="plain", attack="bypass") == unmask.dimensions.Status.NOT_RUN).all()
    verdict = results.unmask.verdict()
    assert verdict["guarded"].label == "masked"
    assert verdict["plain"].label != "masked"
    blind = results.sel(model="guarded", attack="pgd", epsilon=0.1)
    standing = (blind.correct == 1).values
    assert (blind.gradient_zero.values[standing] == 1).all()
    assert (blind.status.values[standing] == unmask.dimensions.Status.ZERO_GRADIENT).all()


def test_a_model_that_cuts_the_graph_has_zero_gradients_and_does_not_crash(known):
    class Detached(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, images):
            return self.inner(images.detach())

    model, images, labels = known.linear_problem()
    results = unmask.evaluate({"cut": Detached(model).eval()}, images, labels, {"pgd": "pgd"}, [0.05])
    standing = (results.correct == 1).values.ravel()
    assert (results.gradient_zero.values.ravel()[standing] == 1).all()


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("channels", ["separate", "together"])
@pytest.mark.parametrize("square", [1, 2])
def test_finite_differences_give_the_block_means_of_an_affine_gradient(known, square, group, channels):
    from unmask.evaluation.threat import Ball

    model, images, labels = known.linear_problem(n=5, shape=(2, 5, 3))
    model = model.double()
    task = _task(model, images.double(), labels, Ball("linf", 0.1, (0.0, 1.0), _kernels()))
    source = unmask.gradient("finite-difference", square=square, group=group, channels=channels)
    weight = torch.ones(30, dtype=torch.float64) * 0.7

    def affine(logits, labels):
        return logits[:, 0]

    with torch.no_grad():
        model.weight[0] = weight
    slope = source(task, task.x, affine)
    torch.testing.assert_close(slope.gradient, torch.full_like(task.x, 0.7), atol=1e-9, rtol=0)
    if square == group == 1 and channels == "separate":
        with torch.no_grad():
            model.weight[0] = torch.randn(30, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        slope = source(task, task.x, affine)
        truth = model.weight[0].detach().reshape(1, 2, 5, 3).expand_as(task.x)
        torch.testing.assert_close(slope.gradient, truth, atol=1e-9, rtol=0)


@pytest.mark.parametrize("outside", [0.0, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_of_many_questions_about_a_sample_the_best_valid_one_is_kept(known, norm, outside):
    from unmask.evaluation.threat import Ball

    model, images, labels = known.linear_problem(n=3, shape=(3, 32, 32))
    images[:, 0, 0, 0], images[:, 0, 0, 1] = 1.0, 0.0
    ball = Ball(norm, 0.01, (0.0, 1.0), _kernels())
    task = _task(model, images, labels, ball)
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 3, (300,), generator=generator)
    unit = ball.steepest(torch.randn((300, 3, 32, 32), generator=generator))
    # Some go up alone and some go down alone, so that they leave ball or box on one side.
    unit[100:200], unit[200:] = unit[100:200].abs(), -unit[200:].abs()
    far = torch.rand(300, generator=generator) < outside
    reach = 0.009 * torch.rand(300, generator=generator) + 0.02 * far
    asked = (images[rows] + reach[:, None, None, None] * unit).clamp(0, 1)
    over, under = (torch.rand((2, 300), generator=generator) < 0.6 * outside).unbind()
    asked[over, 0, 0, 0], asked[under, 0, 0, 1] = 1.005, -0.005
    # What is no image is answered by no number, which nothing surpasses.
    asked[7, 0, 0, 0], asked[8, 1, 2, 3], asked[9, 2, 0, 0] = torch.nan, torch.inf, -torch.inf
    task.target.select(rows)(asked)

    with torch.no_grad():
        logits = model(asked).double()
    own = logits.gather(1, labels[rows][:, None])
    margin = own.squeeze(1) - logits.scatter(1, labels[rows][:, None], -torch.inf).amax(1)
    moved = (asked - images[rows]).flatten(1).double()
    size = moved.abs().amax(1) if norm == "linf" else moved.norm(dim=1)
    inside = (size <= 0.0101) & ((asked >= 0) & (asked <= 1)).flatten(1).all(1)
    none = torch.isin(torch.arange(300), torch.tensor([7, 8, 9]))
    assert torch.equal(inside, ~(far | over | under | none))
    ledger = task.target._ledger
    for i in range(3):
        mine = (inside & (rows == i)).nonzero().squeeze(1)
        assert ledger.forwards[i] == (rows == i).sum()
        assert ledger.broken[i] == (margin[mine] < 0).any()
        if len(mine) == 0:
            assert torch.equal(ledger.best[i], images[i])
            continue
        best = mine[margin[mine].argmin()]
        assert torch.equal(ledger.best[i], asked[best])
        torch.testing.assert_close(ledger.best_score[i], margin[best], rtol=1e-4, atol=1e-6)


def test_enumerated_expectation_is_the_gradient_of_the_mean_loss(known):
    from unmask.evaluation.threat import Ball

    models = [known.linear_problem(seed=s)[0] for s in range(3)]
    _, images, labels = known.linear_problem()
    mixed = unmask.RandomizedEnsemble(models, [0.5, 0.3, 0.2]).eval()
    task = _task(mixed, images, labels, Ball("linf", 0.1, (0.0, 1.0), _kernels()))
    x = images.clone().requires_grad_()
    loss = sum(
        p * torch.nn.functional.cross_entropy(m(x), labels, reduction="none")
        for p, m in zip([0.5, 0.3, 0.2], models, strict=True)
    )
    (truth,) = torch.autograd.grad(loss.sum(), x)
    slope = unmask.gradient("eot")(task, images, torch.nn.CrossEntropyLoss(reduction="none"))
    torch.testing.assert_close(slope.gradient, truth)
    torch.testing.assert_close(slope.loss, loss.detach())


def _kernels():
    from unmask.plugins.catalog import catalog

    return catalog().kernels()


def _task(model, images, labels, ball):
    from unmask.evaluation.inspection import inspect_model
    from unmask.evaluation.ledger import Ledger
    from unmask.evaluation.oracle import Oracle
    from unmask.evaluation.random import SampleRandom
    from unmask.evaluation.target import Target
    from unmask.evaluation.task import Task

    def stream(purpose):
        return SampleRandom.for_samples(range(len(images)), purpose, kernels=_kernels(), dtype=images.dtype)

    oracle = Oracle(inspect_model(model, images, labels), 64)
    ledger = Ledger(oracle=oracle, clean=images, labels=labels, ball=ball, random=stream("model"))
    return Task(Target(ledger), images, labels, ball, stream("attack"))
