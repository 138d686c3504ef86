"""The laws of evaluation that are not numbers: the door, the guest, invariance, resuming."""

from __future__ import annotations

import random

import attrs
import numpy as np
import pytest
import torch
from torch import nn

import unmask
from unmask.dimensions import Status

OUTCOME = [
    "clean_correct",
    "correct",
    "screening",
    "prediction",
    "confidence",
    "margin",
    "distance",
    "forwards",
    "backwards",
    "status",
    "gradient_zero",
    "gradient_norm",
    "adversarial",
]


def small_net(seed: int = 0, channels: int = 1) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(channels, 6, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(6, 6, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(6 * 9, 4),
        ).eval()


def problem(n: int = 23):
    generator = torch.Generator().manual_seed(5)
    images = torch.rand(n, 1, 6, 6, generator=generator)
    model = small_net()
    with torch.no_grad():
        labels = model(images).argmax(1)
    labels[::7] = (labels[::7] + 1) % 4
    return model, images, labels


class Dropped(nn.Module):
    """A model that draws for every row."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, images):
        return self.inner(nn.functional.dropout(images, 0.2, training=True))


ATTACKS = {
    "pgd": {"use": "pgd", "steps": 6, "restarts": 2},
    "fgsm": "fgsm",
    "square": {"use": "square", "queries": 25},
    "zero-order": {"use": "pgd", "steps": 3, "gradient": {"use": "finite-difference", "group": 5}},
    "bypass": {"use": "pgd", "steps": 4, "gradient": "bypass"},
    "transfer": {"use": "transfer", "source": "plain", "attack": {"use": "pgd", "steps": 4, "restarts": 2}},
}


def models():
    plain = small_net()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        front = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1)).eval()
    return {
        "plain": plain,
        "guarded": unmask.Defended(front, plain).eval(),
        "mixed": unmask.RandomizedEnsemble([plain, small_net(1), small_net(2)]).eval(),
        "noisy": Dropped(plain).eval(),
    }


@pytest.fixture(scope="module")
def whole():
    _, images, labels = problem()
    return unmask.evaluate(
        models(), images, labels, ATTACKS, ["0", "0.03", "0.1"], keep_examples=True, draws=16, seed=3
    )


@pytest.mark.parametrize("batch_size", [1, 7])
def test_the_outcome_does_not_depend_on_the_batch_size(whole, batch_size):
    _, images, labels = problem()
    other = unmask.evaluate(
        models(),
        images,
        labels,
        ATTACKS,
        ["0", "0.03", "0.1"],
        keep_examples=True,
        draws=16,
        seed=3,
        batch_size=batch_size,
    )
    for variable in OUTCOME:
        np.testing.assert_array_equal(other[variable].values, whole[variable].values, err_msg=variable)


def test_the_outcome_does_not_depend_on_order_or_company(whole):
    _, images, labels = problem()
    order = torch.randperm(23, generator=torch.Generator().manual_seed(1))[:14]
    part = unmask.evaluate(
        models(),
        images[order],
        labels[order],
        ATTACKS,
        ["0", "0.03", "0.1"],
        keep_examples=True,
        draws=16,
        seed=3,
        sample_ids=order,
    )
    expected = whole.sel(sample=order.numpy())
    for variable in OUTCOME:
        np.testing.assert_array_equal(part[variable].values, expected[variable].values, err_msg=variable)


def test_accuracy_never_exceeds_clean_nor_rises_with_the_radius(whole):
    assert (whole.correct.fillna(0) <= whole.clean_correct).all()
    deterministic = whole.sel(model=["plain", "guarded", "mixed"])
    assert (deterministic.correct.fillna(1).diff("epsilon") <= 0).all()


def test_examples_are_inside_ball_and_box_exactly(whole):
    _, images, _ = problem()
    examples = whole.adversarial.values.astype(np.float64)
    assert np.nanmin(examples) >= 0
    assert np.nanmax(examples) <= 1
    moved = np.abs(examples - images.numpy().astype(np.float64)).reshape(*examples.shape[:4], -1).max(-1)
    assert np.nanmax(moved - whole.epsilon.values[:, None]) <= 0
    expected = np.where(np.isnan(moved), whole.distance.values, moved)
    np.testing.assert_array_equal(whole.distance.values, expected)


def test_clean_errors_cost_nothing_and_keep_their_image(whole):
    _, images, _ = problem()
    wrong = whole.clean_correct.sel(model="plain").values == 0
    assert wrong.any()
    there = whole.sel(model="plain", attack="pgd").isel(sample=wrong)
    assert (there.forwards == 0).all()
    assert (there.status == Status.CLEAN_ERROR).all()
    assert (there.correct == 0).all()
    assert (there.distance == 0).all()
    np.testing.assert_array_equal(
        there.adversarial.values, np.broadcast_to(images.numpy()[wrong], there.adversarial.shape)
    )


def test_the_model_is_a_guest():
    model, images, labels = problem()
    model[0].weight.requires_grad_(False)
    model[2].weight.grad = torch.ones_like(model[2].weight)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    wanted = [p.requires_grad for p in model.parameters()]
    given = images.clone(), labels.clone()
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    noisy = Dropped(model).eval()
    unmask.evaluate({"m": model, "n": noisy}, images, labels, {"pgd": "pgd", "fgsm": "fgsm"}, [0.05], draws=8)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert [p.requires_grad for p in model.parameters()] == wanted
    assert torch.equal(model[2].weight.grad, torch.ones_like(model[2].weight))
    assert model[4].training is False
    assert torch.equal(images, given[0])
    assert torch.equal(labels, given[1])
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert random.getstate() == states[2]


def test_a_model_that_changes_its_buffers_gets_them_back():
    class Counting(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, images):
            self.calls += 1
            return self.inner(images)

    model, images, labels = problem()
    counting = Counting(model).eval()
    unmask.evaluate({"m": counting}, images, labels, {"fgsm": "fgsm"}, [0.05])
    assert float(counting.calls) == 0


def outside(target, images, labels, budget, random):
    """Leaves the ball."""
    return (images + 2 * budget.epsilon).clamp(*budget.bounds)


def unboxed(target, images, labels, budget, random):
    """Leaves the box inside the ball."""
    return torch.where(images < 0.5, images - budget.epsilon, images + budget.epsilon) * 1.0


def broken_numbers(target, images, labels, budget, random):
    """Returns NaN."""
    return images * torch.nan


def wrong_shape(target, images, labels, budget, random):
    """Forgets a sample."""
    return images[1:]


def raising(target, images, labels, budget, random):
    """Raises."""
    raise RuntimeError("out of luck")


def label_cheat(target, images, labels, budget, random):
    """Writes into what it was given."""
    labels.fill_(0)
    images.zero_()
    return images


def peeking_outside(target, images, labels, budget, random):
    """Finds adversarial examples far outside, returns the image."""
    for scale in (5.0, -5.0):
        target(images + scale)
    return images


@pytest.mark.parametrize(
    ("attack", "status"),
    [
        (outside, Status.BUDGET_VIOLATION),
        (broken_numbers, Status.NON_FINITE),
        (peeking_outside, Status.OK),
        (label_cheat, Status.BUDGET_VIOLATION),
    ],
)
def test_no_attack_can_cheat_the_door(attack, status):
    model, images, labels = problem()
    given = images.clone(), labels.clone()
    results = unmask.evaluate({"m": model}, images, labels, {"cheat": attack}, [0.02])
    right = results.clean_correct.values[0] == 1
    assert (results.correct.values[0, 0, 0] == results.clean_correct.values[0]).all()
    assert (results.status.values[0, 0, 0][right] == status).all()
    assert torch.equal(images, given[0])
    assert torch.equal(labels, given[1])


def test_leaving_the_box_alone_is_a_box_violation():
    model, images, labels = problem()
    images = images.round()
    with torch.no_grad():
        labels = model(images).argmax(1)
    results = unmask.evaluate({"m": model}, images, labels, {"cheat": unboxed}, [0.1])
    assert (results.status == Status.BOX_VIOLATION).all()
    assert (results.correct == 1).all()


@pytest.mark.parametrize(
    ("attack", "message"), [(raising, "out of luck"), (wrong_shape, "one image for each")]
)
def test_a_failing_attack_costs_its_own_cells_and_no_rate_is_told(attack, message):
    model, images, labels = problem()
    results = unmask.evaluate({"m": model}, images, labels, {"bad": attack, "fgsm": "fgsm"}, [0.02, 0.05])
    assert (results.status.sel(attack="bad") == Status.FAILED).all()
    assert results.correct.sel(attack="bad").isnull().all()
    assert message in results.message.sel(attack="bad").values[0, 0]
    assert results.unmask.robust_accuracy().sel(attack="bad").isnull().all()
    assert results.unmask.robust_accuracy().sel(attack="fgsm").notnull().all()


def test_the_door_keeps_the_best_example_an_attack_saw_and_threw_away():
    def forgetful(target, images, labels, budget, random):
        for _ in range(60):
            target(budget.random_point(images, random))
        return images

    model, images, labels = problem()
    results = unmask.evaluate(
        {"m": model}, images, labels, {"forgetful": forgetful}, [0.3], keep_examples=True
    )
    fallen = (results.correct.values[0, 0, 0] == 0) & (results.clean_correct.values[0] == 1)
    assert fallen.any()
    with torch.no_grad():
        again = model(torch.from_numpy(results.adversarial.values[0, 0, 0][fallen])).argmax(1)
    assert (again != labels[torch.from_numpy(fallen)]).all()


def test_nan_logits_at_a_valid_example_count_as_wrong():
    class Fragile(nn.Module):
        def __init__(self, inner, images):
            super().__init__()
            self.inner, self.images = inner, images

        def forward(self, x):
            moved = (x[:, None] - self.images[None]).flatten(2).abs().amax(2).amin(1) > 0.01
            return torch.where(moved[:, None], torch.nan, self.inner(x))

    model, images, labels = problem()
    results = unmask.evaluate({"m": Fragile(model, images).eval()}, images, labels, {"fgsm": "fgsm"}, [0.05])
    right = results.clean_correct.values[0] == 1
    assert (results.correct == 0).all()
    assert (results.status.values[0, 0, 0][right] == Status.NON_FINITE).all()


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_no_sample_costs_more_than_its_query_budget(limit):
    model, images, labels = problem()
    attacks = {name: ATTACKS[name] for name in ("pgd", "square", "zero-order")}
    results = unmask.evaluate({"m": model}, images, labels, attacks, [0.05], max_queries=limit)
    assert int(results.forwards.max()) <= limit
    assert (results.status != Status.FAILED).all()


def test_a_spent_row_gets_its_last_logits_again_uncounted():
    seen = []

    def greedy(target, images, labels, budget, random):
        first = target(images)
        again = target(budget.random_point(images, random))
        seen.append((torch.equal(first, again), bool(target.exhausted.all())))
        return images

    model, images, labels = problem()
    results = unmask.evaluate({"m": model}, images, labels, {"greedy": greedy}, [0.05], max_queries=1)
    assert seen == [(True, True)]
    assert int(results.forwards.max()) == 1


def test_the_attacks_own_query_limit_goes_first():
    model, images, labels = problem()
    attacks = {
        "a": unmask.attack("square", queries=50, max_queries=4),
        "b": unmask.attack("square", queries=50),
    }
    results = unmask.evaluate({"m": model}, images, labels, attacks, [0.001], max_queries=6)
    assert results.forwards.max(("model", "epsilon", "sample")).values.tolist() == [4, 6]


def test_a_cell_that_takes_too_long_fails_with_the_reason():
    def endless(target, images, labels, budget, random):
        while True:
            target(images)

    model, images, labels = problem()
    results = unmask.evaluate(
        {"m": model}, images, labels, {"endless": endless, "fgsm": "fgsm"}, [0.05], timeout=0.2
    )
    assert (results.status.sel(attack="endless") == Status.FAILED).all()
    assert "time" in str(results.message.sel(attack="endless").values)
    assert (results.status.sel(attack="fgsm") != Status.FAILED).all()


def test_the_global_randomness_of_a_model_is_found_and_its_score_repeats():
    model, images, labels = problem()
    noisy = Dropped(model).eval()
    runs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        runs.append(unmask.evaluate({"m": noisy}, images, labels, {"fgsm": "fgsm"}, [0.05], draws=16))
    assert str(runs[0].randomness.values[0]) == "drawn"
    np.testing.assert_array_equal(runs[0].correct.values, runs[1].correct.values)
    assert 0 < float(runs[0].clean_correct.mean()) < 1


def test_a_model_with_a_generator_of_its_own_is_seeded_and_restored():
    class Private(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
            self.generator = torch.Generator().manual_seed(9)

        def forward(self, images):
            noise = torch.randn(images.shape, generator=self.generator)
            return self.inner(images + 0.3 * noise)

    model, images, labels = problem()
    private = Private(model).eval()
    before = private.generator.get_state()
    a, b = (
        unmask.evaluate({"m": private}, images, labels, {"fgsm": "fgsm"}, [0.05], draws=16) for _ in range(2)
    )
    assert str(a.randomness.values[0]) == "drawn"
    assert torch.equal(private.generator.get_state(), before)
    np.testing.assert_array_equal(a.correct.values, b.correct.values)


def test_an_interrupted_run_goes_on_and_gives_the_same_file(tmp_path, whole):
    _, images, labels = problem()
    calls = []

    class Interrupting:
        def begin(self, cells):
            pass

        def cell(self, model, attack, epsilon):
            calls.append((model, attack, epsilon))
            if len(calls) == 17:
                raise KeyboardInterrupt

        def step(self, done, total, standing):
            pass

        def finished(self, *, reused, **counts):
            pass

        def warn(self, message):
            pass

    def run(progress=None):
        return unmask.evaluate(
            models(),
            images,
            labels,
            ATTACKS,
            ["0", "0.03", "0.1"],
            keep_examples=True,
            draws=16,
            seed=3,
            out=tmp_path / "run",
            progress=progress,
        )

    with pytest.raises(KeyboardInterrupt):
        run(Interrupting())
    assert not (tmp_path / "run" / "results.nc").exists()
    before = list(calls)
    run(Interrupting())
    assert not set(before[:16]) & set(calls[17:]), "a finished cell was computed again"
    stored = unmask.load(tmp_path / "run" / "results.nc")
    for variable in OUTCOME:
        np.testing.assert_array_equal(stored[variable].values, whole[variable].values, err_msg=variable)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 4}, r"seed \(0, now 4\)"),
        ({"epsilons": [0.2]}, r"epsilons \(\[0.1\], now \[0.2\]\)"),
        ({"attacks": {"fgsm": {"use": "fgsm", "loss": "dlr"}}}, "attack 'fgsm'"),
        ({"models": {"m": small_net(8)}}, "model 'm'"),
        ({"labels": torch.zeros(23, dtype=torch.long)}, "samples"),
    ],
)
def test_a_folder_of_another_run_is_refused_naming_what_changed(tmp_path, change, named):
    model, images, labels = problem()
    given = {
        "models": {"m": model},
        "images": images,
        "labels": labels,
        "attacks": {"fgsm": "fgsm"},
        "epsilons": [0.1],
        "out": tmp_path / "run",
    }
    unmask.evaluate(**given)
    with pytest.raises(unmask.errors.UserError, match=named):
        unmask.evaluate(**(given | change))
    unmask.evaluate(**(given | change), fresh=True)
    assert unmask.load(tmp_path / "run.1" / "results.nc").epsilon.values.tolist() == [0.1]


def test_a_nearest_search_runs_once_and_every_radius_is_read_off():
    calls = []

    @attrs.frozen
    class Corner:
        """Moves every pixel by 0.04."""

        search = "nearest"

        def __call__(self, target, images, labels, budget, random):
            calls.append(budget.epsilon)
            worse = images
            for sign in (1, -1):
                moved = (images + sign * 0.04).clamp(0, 1)
                wrong = target(moved).argmax(1) != labels
                worse = torch.where(wrong[:, None, None, None], moved, worse)
            return worse

    model, images, labels = problem(40)
    results = unmask.evaluate({"m": model}, images, labels, {"corner": Corner()}, [0.0, 0.02, 0.05])
    assert calls == [float("inf")]
    right = results.clean_correct.values[0] == 1
    found = np.isfinite(results.distance.values[0, 0, 0]) & right
    assert found.any()
    assert np.isinf(results.distance.values[0, 0, 0][right & ~found]).all()
    for k, epsilon in enumerate([0.0, 0.02, 0.05]):
        fallen = found & (results.distance.values[0, 0, 0] <= epsilon)
        np.testing.assert_array_equal(results.correct.values[0, 0, k] == 0, fallen | ~right)
