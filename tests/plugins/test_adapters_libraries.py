"""Attacks of other libraries: what they find by hand they find at the door, whose laws hold for them."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from importlib.util import find_spec

import attrs
import numpy as np
import pytest
import torch

import unmask
from unmask.dimensions import Status
from unmask.errors import UserError

EPSILON = {"linf": 0.1, "l2": 0.5, "l1": 2.0}


def needs(module):
    return pytest.mark.skipif(find_spec(module) is None, reason=f"{module} is not installed")


@pytest.fixture(scope="module")
def problem():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(1, 6, 3, padding=1),
            torch.nn.Tanh(),
            torch.nn.Conv2d(6, 6, 3, stride=2, padding=1),
            torch.nn.Tanh(),
            torch.nn.Flatten(),
            torch.nn.Linear(96, 4),
        ).eval()
        images = torch.rand(7, 1, 8, 8)
    labels = net(images).argmax(1).detach()
    labels[2] = (labels[2] + 1) % 4
    return net, images, labels


def evaluated(problem, attack, norm, **more):
    net, images, labels = problem
    more = {"epsilons": [EPSILON[norm]], "keep_examples": True, **more}
    results = unmask.evaluate({"m": net}, images, labels, {"a": attack}, norm=norm, **more)
    assert (results.message == "").all(), str(results.message.values.ravel())
    return results


def foolbox_pgd(net, images, labels, epsilon):
    import foolbox

    model = foolbox.PyTorchModel(net, bounds=(0, 1))
    attack = foolbox.attacks.LinfPGD(steps=5, random_start=False)
    return attack(model, images, labels, epsilons=epsilon)[1]


def foolbox_ddn(net, images, labels, epsilon):
    import foolbox

    model = foolbox.PyTorchModel(net, bounds=(0, 1))
    return foolbox.attacks.DDNAttack(steps=20)(model, images, labels, epsilons=None)[0]


def torchattacks_pgd(net, images, labels, epsilon):
    import torchattacks

    return torchattacks.PGD(net, eps=epsilon, alpha=epsilon / 4, steps=5, random_start=False)(images, labels)


def torchattacks_deepfool(net, images, labels, epsilon):
    import torchattacks

    return torchattacks.DeepFool(net, steps=20)(images, labels)


def art_pgd(net, images, labels, epsilon):
    from art.attacks.evasion import ProjectedGradientDescentPyTorch
    from art.estimators.classification import PyTorchClassifier

    estimator = PyTorchClassifier(
        net, torch.nn.CrossEntropyLoss(), (1, 8, 8), 4, clip_values=(0.0, 1.0), device_type="cpu"
    )
    attack = ProjectedGradientDescentPyTorch(
        estimator, norm=2, eps=epsilon, eps_step=epsilon / 3, max_iter=5, verbose=False
    )
    return torch.as_tensor(attack.generate(images.numpy(), np.eye(4)[labels.numpy()]))


def adv_lib_fmn(net, images, labels, epsilon):
    from unmask_plugins.adapters.stand_ins import standing_in

    with standing_in("visdom"):
        from adv_lib.attacks import fmn
    return fmn(net, images, labels, norm=float("inf"), steps=20)


def adv_lib_pgd(net, images, labels, epsilon):
    from unmask_plugins.adapters.stand_ins import standing_in

    with standing_in("visdom"):
        from adv_lib.attacks import pgd_linf
    return pgd_linf(net, images, labels, ε=epsilon, steps=5, random_init=False)


def cleverhans_pgd(net, images, labels, epsilon):
    from cleverhans.torch.attacks.projected_gradient_descent import projected_gradient_descent

    return projected_gradient_descent(
        net, images, epsilon, epsilon / 10, 5, np.inf, 0.0, 1.0, y=labels, rand_init=False
    )


BY_HAND = [
    ("foolbox", "foolbox:LinfPGD", "linf", {"steps": 5, "random_start": False}, foolbox_pgd),
    ("foolbox", "foolbox:DDNAttack", "l2", {"steps": 20}, foolbox_ddn),
    ("torchattacks", "torchattacks:PGD", "linf", {"steps": 5, "random_start": False}, torchattacks_pgd),
    ("torchattacks", "torchattacks:DeepFool", "l2", {"steps": 20}, torchattacks_deepfool),
    ("art", "art:ProjectedGradientDescentPyTorch", "l2", {"max_iter": 5}, art_pgd),
    ("adv_lib", "adv-lib:fmn", "linf", {"steps": 20}, adv_lib_fmn),
    ("adv_lib", "adv-lib:pgd_linf", "linf", {"steps": 5, "random_init": False}, adv_lib_pgd),
    (
        "cleverhans",
        "cleverhans:projected_gradient_descent",
        "linf",
        {"nb_iter": 5, "rand_init": False},
        cleverhans_pgd,
    ),
]


@pytest.mark.parametrize(
    ("name", "norm", "options", "by_hand"),
    [pytest.param(*case[1:], marks=needs(case[0]), id=case[1]) for case in BY_HAND],
)
@pytest.mark.filterwarnings("ignore")
def test_it_finds_what_the_library_finds_by_hand(problem, name, norm, options, by_hand):
    net, epsilon = problem[0], EPSILON[norm]
    attack = unmask.attack(name, **options)
    returned = []

    def spied(target, shown, goals, budget, random):
        returned.append((attack.attack(target, shown, goals, budget, random), shown, goals))
        return returned[-1][0]

    spied.search, spied.norms = attack.entry.search, attack.entry.norms
    results = evaluated(problem, spied, norm)
    ours, shown, goals = returned[0]
    theirs = by_hand(net, shown, goals, epsilon).detach().float()
    torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=0)
    # And the judge agrees with what the library's examples do.
    right = results.clean_correct.values[0] == 1
    if attack.entry.search == "within":
        p = {"linf": np.inf, "l2": 2}[norm]
        assert (np.linalg.norm((ours - shown).flatten(1).numpy(), p, axis=1) <= epsilon * (1 + 1e-5)).all()
        held = (net(theirs).argmax(1) == goals).numpy()
        assert (results.correct.values[0, 0, 0][right] <= held).all()
    else:
        fooled = (net(theirs).argmax(1) != goals).numpy()
        distance = results.distance.values[0, 0, 0][right]
        own = np.linalg.norm((theirs - shown).flatten(1).numpy(), {"linf": np.inf, "l2": 2}[norm], axis=1)
        # The door keeps the closest example that it saw, which is at least as close.
        assert (distance[fooled] <= own[fooled] * (1 + 1e-5)).all()
        assert fooled.mean() > 0.5


LAWS = [
    ("foolbox", "foolbox:LinfPGD", "linf", {"steps": 3}, True),
    ("foolbox", "foolbox:L1FMNAttack", "l1", {"steps": 5}, True),
    ("foolbox", "foolbox:L2RepeatedAdditiveGaussianNoiseAttack", "l2", {"repeats": 4}, False),
    ("torchattacks", "torchattacks:PGD", "linf", {"steps": 3}, True),
    ("torchattacks", "torchattacks:Square", "l2", {"n_queries": 9}, False),
    ("torchattacks", "torchattacks:APGDT", "linf", {"steps": 3}, False),
    ("art", "art:ProjectedGradientDescentPyTorch", "l1", {"max_iter": 3, "num_random_init": 1}, True),
    ("art", "art:SquareAttack", "linf", {"max_iter": 5}, False),
    ("adv_lib", "adv-lib:apgd", "l2", {"n_iter": 5}, True),
    ("adv_lib", "adv-lib:fmn", "linf", {"steps": 5}, True),
    ("cleverhans", "cleverhans:projected_gradient_descent", "l2", {"nb_iter": 3}, True),
    ("cleverhans", "cleverhans:spsa", "linf", {"nb_iter": 2, "spsa_samples": 4}, True),
]
CASES = [pytest.param(*case[1:], marks=needs(case[0]), id=f"{case[1]}-{case[2]}") for case in LAWS]
OUTCOME = ("correct", "margin", "distance", "forwards", "backwards", "status", "adversarial")


@pytest.mark.parametrize(("name", "norm", "options", "targeted"), CASES)
@pytest.mark.filterwarnings("ignore")
def test_the_doors_laws_hold(problem, name, norm, options, targeted):
    net, images, labels = problem
    before = {key: value.clone() for key, value in net.state_dict().items()}
    state = torch.random.get_rng_state()
    numpy_state, python_state = np.random.get_state()[1].copy(), random.getstate()
    attack = unmask.attack(name, **options)
    whole = evaluated(problem, attack, norm)

    # The guest and the world are as they were.
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)
    assert random.getstate() == python_state
    # Ball and box, in float64.
    difference = whole.adversarial.values[0, 0, 0].astype(np.float64) - images.numpy().astype(np.float64)
    flat = np.abs(difference.reshape(7, -1))
    size = {"linf": flat.max(1), "l2": np.sqrt((flat**2).sum(1)), "l1": flat.sum(1)}[norm]
    assert (size <= EPSILON[norm]).all()
    assert 0 <= whole.adversarial.values.min() <= whole.adversarial.values.max() <= 1
    # A clean error costs nothing and keeps its image.
    assert whole.forwards.values[0, 0, 0, 2] == 0
    assert whole.status.values[0, 0, 0, 2] == Status.CLEAN_ERROR
    assert (difference[2] == 0).all()
    assert (np.delete(whole.forwards.values.ravel(), 2) > 0).all()
    reads_gradients = attack.entry.access == "gradients"
    assert (np.delete(whole.backwards.values.ravel(), 2) > 0).all() == reads_gradients
    # Nobody's outcome depends on company, order or batch.
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    reordered = (net, images[order], labels[order])
    other = evaluated(reordered, attack, norm, sample_ids=order, batch_size=2).sel(sample=whole.sample)
    for variable in OUTCOME:
        np.testing.assert_array_equal(other[variable].values, whole[variable].values, err_msg=variable)
    # The query budget holds, and nothing is counted beyond it.
    frugal = evaluated(problem, unmask.attack(name, **options, max_queries=2), norm)
    assert frugal.forwards.values.max() <= 2
    if targeted:
        aimed = evaluated(problem, unmask.attack(name, **options, targeted=True, target=1), norm)
        reached = aimed.target_reached.values[0, 0, 0]
        free = (labels != 1).numpy() & (np.arange(7) != 2)
        np.testing.assert_array_equal(reached[free], aimed.prediction.values[0, 0, 0][free] == 1)
    else:
        with pytest.raises(UserError, match="cannot be targeted"):
            unmask.attack(name, **options, targeted=True, target=1)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=needs(library))
        for library, name in [
            ("foolbox", "foolbox:LinfBasicIterativeAttack"),
            ("torchattacks", "torchattacks:BIM"),
            ("art", "art:BasicIterativeMethod"),
        ]
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_other_bounds_are_the_same_problem(problem, name):
    """A model of images in [-1, 1] is attacked with twice the radius, and falls for the same samples."""
    net, images, labels = problem

    class Shifted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, shown):
            return self.net((shown + 1) / 2)

    attack = unmask.attack(name)
    plain = evaluated(problem, attack, "linf", epsilons=[0.03])
    shifted = evaluated(
        (Shifted().eval(), images * 2 - 1, labels), attack, "linf", epsilons=[0.06], bounds=(-1.0, 1.0)
    )
    np.testing.assert_array_equal(shifted.forwards.values, plain.forwards.values)
    np.testing.assert_allclose(shifted.margin.values, plain.margin.values, atol=1e-4)


@needs("foolbox")
@pytest.mark.filterwarnings("ignore")
def test_randomised_models_are_judged_by_expectation(problem):
    """Two members that disagree about everything score one half, whatever a library does to one draw."""
    net, images, labels = problem
    flipped = torch.nn.Sequential(net, torch.nn.Linear(4, 4, bias=False)).eval()
    with torch.no_grad():
        flipped[1].weight.copy_(torch.eye(4).roll(1, 0))
    mixed = unmask.RandomizedEnsemble([net, flipped])
    results = evaluated(
        (mixed, images, labels), unmask.attack("foolbox:LinfPGD", steps=3), "linf", epsilons=[0.0]
    )
    right = np.arange(7) != 2
    assert (results.correct.values[0, 0, 0][right] == 0.5).all()
    attacked = evaluated((mixed, images, labels), unmask.attack("foolbox:LinfPGD", steps=3), "linf")
    assert (attacked.correct.values <= results.correct.values).all()
    again = evaluated(
        (mixed, images, labels), unmask.attack("foolbox:LinfPGD", steps=3), "linf", batch_size=3
    )
    np.testing.assert_array_equal(again.correct.values, attacked.correct.values)


@needs("foolbox")
@pytest.mark.filterwarnings("ignore")
def test_together_hands_over_the_whole_batch(problem):
    options = {"steps": 4, "random_start": False}
    apart = evaluated(problem, unmask.attack("foolbox:LinfPGD", **options), "linf")
    together = evaluated(problem, unmask.attack("foolbox:LinfPGD", **options, together=True), "linf")
    np.testing.assert_array_equal(together.forwards.values, apart.forwards.values)
    np.testing.assert_allclose(together.margin.values, apart.margin.values, atol=1e-5)


@pytest.mark.parametrize(
    "case", [pytest.param(c[1:], marks=needs(c[0]), id=c[1]) for c in (LAWS[0], LAWS[9])]
)
@pytest.mark.filterwarnings("ignore")
def test_an_attack_can_be_sent_to_a_worker(problem, case):
    """A process that has not imported the library finds it by itself."""
    name, norm, options, _ = case
    attack = unmask.attack(name, **options)
    again = pickle.loads(pickle.dumps(attack.attack))
    here, there = (evaluated(problem, attrs.evolve(attack, attack=a), norm) for a in (attack.attack, again))
    np.testing.assert_array_equal(here.adversarial.values, there.adversarial.values)
    code = (
        "import pickle, sys; pickle.load(sys.stdin.buffer);"
        "print('torch' in sys.modules, bool({'adv_lib', 'foolbox'} & set(sys.modules)))"
    )
    sent = pickle.dumps(attack.attack)
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    assert done.stdout.decode().split() == ["True", "False"]


@needs("adv_lib")
@pytest.mark.filterwarnings("ignore")
def test_queries_that_nobody_can_attribute_are_refused(problem):
    """A search that drops rows as it goes cannot be handed several at once."""
    net, images, labels = problem
    attack = unmask.attack("adv-lib:df", steps=20, together=True)
    results = unmask.evaluate({"m": net}, images, labels, {"a": attack}, [0.5], "l2")
    assert "leave 'together' out" in str(results.message.item())
