"""PGD and FGSM at equal settings without a random start: the images of Foolbox and torchattacks.

Each is skipped where its library is not installed.
"""

from __future__ import annotations

import pytest
import torch

import unmask
from unmask import components

EPSILON = {"linf": 0.1, "l2": 0.3}
SIZE = {"linf": 0.02, "l2": 0.07}
STEPS = 7


@pytest.fixture(scope="module")
def problem(small_digits_net):
    """A small trained network, and the first test images."""
    test = components.data("digits")
    return small_digits_net(epochs=3), test.images[:60], test.labels[:60]


def foolbox(net, images, labels, attack, norm):
    library = pytest.importorskip("foolbox")
    model = library.PyTorchModel(net, bounds=(0, 1), device="cpu")
    options = {"random_start": False}
    if attack == "pgd":
        options |= {"abs_stepsize": SIZE[norm], "steps": STEPS}
    kinds = {
        ("pgd", "linf"): library.attacks.LinfPGD,
        ("pgd", "l2"): library.attacks.L2PGD,
        ("fgsm", "linf"): library.attacks.FGSM,
        ("fgsm", "l2"): library.attacks.L2FastGradientAttack,
    }
    return kinds[attack, norm](**options)(model, images, labels, epsilons=EPSILON[norm])[1]


def torchattacks(net, images, labels, attack, norm):
    library = pytest.importorskip("torchattacks")
    if attack == "fgsm":
        return library.FGSM(net, eps=EPSILON[norm])(images, labels)
    kind = library.PGD if norm == "linf" else library.PGDL2
    made = kind(net, eps=EPSILON[norm], alpha=SIZE[norm], steps=STEPS, random_start=False)
    return made(images, labels)


def ours(known, net, images, labels, attack, norm):
    options = {"steps": STEPS, "step_size": SIZE[norm], "random_start": False} if attack == "pgd" else {}
    made = unmask.attack(attack, **options).attack
    task = known.task_of(net, images, labels, norm, EPSILON[norm])
    state = made.start(task)
    for _ in range(made.steps):
        state = made.step(task, state)
    return state.x


@pytest.mark.parametrize(
    ("peer", "attack", "norm"),
    [
        (foolbox, "pgd", "linf"),
        (foolbox, "pgd", "l2"),
        (foolbox, "fgsm", "linf"),
        (foolbox, "fgsm", "l2"),
        (torchattacks, "pgd", "linf"),
        (torchattacks, "pgd", "l2"),
        (torchattacks, "fgsm", "linf"),
    ],
)
def test_equal_settings_give_the_same_images(known, problem, peer, attack, norm):
    net, images, labels = problem
    if norm == "l2":
        # Away from the border of the box. There the peers go to the ball and then to the box, and we to the
        # nearest point of both.
        images = 0.4 + 0.2 * images
        with torch.no_grad():
            labels = net(images).argmax(1)
    right = net(images).argmax(1) == labels
    images, labels = images[right], labels[right]
    assert len(images) >= 40
    found = ours(known, net, images, labels, attack, norm)
    theirs = peer(net, images, labels, attack, norm)
    assert float((theirs - images).abs().max()) > 0.01
    torch.testing.assert_close(found, theirs, rtol=0, atol=1e-5)
