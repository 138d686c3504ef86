"""The conformance kit catches what it is there for: every lawless attack by the check made for it."""

from __future__ import annotations

import random as python_random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from unmask.entries import AttackEntry
from unmask.errors import UserError
from unmask.markers import hookimpl
from unmask.plugins.catalog import Catalog, using
from unmask.plugins.loading import Candidate, installed_candidates, load_plugins
from unmask.testing import LawBroken, conformance
from unmask.testing.attacks import budget as budget_checks


def _loss(logits, labels):
    return cross_entropy(logits, labels, reduction="none")


def _gradient(task, x):
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(_loss(task.target(x), task.labels).sum(), x)
    return gradient


@attrs.frozen
class Honest:
    """Climbs the cross-entropy.

    Attributes:
        steps: How often it steps.
    """

    steps: int = 3

    @attrs.frozen
    class State:
        x: torch.Tensor

    def start(self, task):
        return self.State(task.ball.random_point(task.x, task.random))

    def moved(self, task, x):
        return x + task.ball.epsilon * task.ball.steepest(_gradient(task, x))

    def step(self, task, state):
        return self.State(task.ball.project(self.moved(task, state.x), around=task.x))


class LeavesTheBall(Honest):
    """Steps twice as far as the ball and clips to the box alone."""

    def step(self, task, state):
        return self.State(self.moved(task, task.x + task.ball.epsilon).clamp(*task.ball.bounds))


class LeavesTheBox(Honest):
    """Knows the ball and not the box."""

    def step(self, task, state):
        ahead = self.moved(task, task.x) - task.x
        return self.State(task.x + ahead.clamp(-task.ball.epsilon, task.ball.epsilon))


class DividesByZero(Honest):
    """Normalises the gradient without looking at its norm."""

    def moved(self, task, x):
        gradient = _gradient(task, x)
        return x + task.ball.epsilon * gradient / gradient.flatten(1).norm(dim=1)[:, None, None, None]


class LooksAtOthers(Honest):
    """Follows the batch's mean gradient."""

    def moved(self, task, x):
        return x + task.ball.epsilon * _gradient(task, x).mean(0, keepdim=True).sign()


class KnowsItsPlace(Honest):
    """The first row of a batch steps less far than the second."""

    def moved(self, task, x):
        share = torch.linspace(0.2, 1, 9)[: len(x), None, None, None]
        return x + share * task.ball.epsilon * _gradient(task, x).sign()


class OwnGenerator(Honest):
    """Draws one batch of noise from a generator of its own."""

    def start(self, task):
        noise = torch.rand(task.x.shape, generator=torch.Generator().manual_seed(0))
        return self.State(task.ball.project(task.x + noise - 0.5, around=task.x))


@attrs.define
class Learns(Honest):
    """Remembers how often it was used."""

    used: list = attrs.field(factory=list, init=False)

    def moved(self, task, x):
        self.used.append(1)
        return x + task.ball.epsilon / len(self.used) * _gradient(task, x).sign()


class EditsWeights(Honest):
    """Reaches past the door."""

    def start(self, task):
        module = task.target._ledger.oracle.members[0].module
        with torch.no_grad():
            next(iter(module.parameters())).mul_(0.5)
        return super().start(task)


class SwitchesToTraining(Honest):
    """Turns batch normalisation on."""

    def start(self, task):
        task.target._ledger.oracle.members[0].module.train()
        return super().start(task)


class GlobalTorch(Honest):
    """Starts at torch's own random numbers."""

    def start(self, task):
        return self.State(task.ball.project(torch.rand_like(task.x), around=task.x))


class GlobalNumPy(Honest):
    """Starts at NumPy's own random numbers."""

    def start(self, task):
        noise = torch.from_numpy(np.random.rand(*task.x.shape)).float()
        return self.State(task.ball.project(noise, around=task.x))


class GlobalPython(Honest):
    """Starts somewhere else each time."""

    def start(self, task):
        return self.State(task.ball.project(task.x + python_random.random() - 0.5, around=task.x))


class WantsDoubles(Honest):
    """Changes what all of torch computes with."""

    def step(self, task, state):
        torch.set_default_dtype(torch.float64)
        return super().step(task, state)


class MovesItsCentre(Honest):
    """Writes into the clean images, and so moves the ball it projects into."""

    def step(self, task, state):
        moved = task.ball.project(self.moved(task, state.x), around=task.x)
        return self.State(task.x.copy_(moved).clone())


class DoesNothing(Honest):
    """Stays."""

    def start(self, task):
        return self.State(task.x)

    def moved(self, task, x):
        return x


class AssumesUnitBounds(Honest):
    """Pixel values lie in [0, 1], do they not?"""

    def step(self, task, state):
        return self.State(self.moved(task, task.x).clamp(0, 1))


class AssumesSomeRows(Honest):
    """There is always a first row."""

    def __call__(self, target, images, labels, budget, random):
        first = images[0]
        return budget.project(images + budget.epsilon * torch.ones_like(first), around=images)

    start = step = property(doc="It is called, not stepped.")


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """A builder of a plain attack."""

    def build(queries: int = 10) -> Callable[..., Any]:
        """Builds it.

        Args:
            queries: How many are spent.
        """

        def attack(target, images, labels, budget, random):
            return function(target, images, labels, budget, random, queries)

        return attack

    return build


def _random_points(target, images, labels, budget, random, queries):
    best, found = images.clone(), torch.zeros(len(images), dtype=torch.bool)
    for _ in range(queries):
        point = budget.random_point(images, random)
        wrong = target(point).argmax(1) != labels
        best[wrong & ~found] = point[wrong & ~found]
        found |= wrong
    return best


@called
def honest_queries(target, images, labels, budget, random, queries):
    return _random_points(target, images, labels, budget, random, queries)


@called
def spends_twice(target, images, labels, budget, random, queries):
    return _random_points(target, images, labels, budget, random, 2 * queries)


@called
def never_gives_up(target, images, labels, budget, random, queries):
    while not bool(target.broken.all()):
        target(budget.random_point(images, random))
    return images


@called
def loses_the_batch_axis(target, images, labels, budget, random, queries):
    return _random_points(target, images, labels, budget, random, queries).squeeze(0)


@called
def first_row_only(target, images, labels, budget, random, queries):
    nothing_moved = images - images[0] + images[0]
    return _random_points(target, nothing_moved, labels, budget, random, queries)


@called
def peeks_at_the_callers_labels(target, images, labels, budget, random, queries):
    frame = sys._getframe()
    while frame.f_code.co_name != "evaluate":
        frame = frame.f_back
    if "64" not in str(frame.f_locals["labels"].dtype):
        return images
    return budget.project(images + budget.epsilon, around=images)


@called
def takes_gradients_secretly(target, images, labels, budget, random, queries):
    x = images.requires_grad_()
    (gradient,) = torch.autograd.grad(_loss(target(x), labels).sum(), x)
    return budget.project(
        images.detach() + budget.epsilon * budget.steepest(gradient), around=images.detach()
    )


@called
def reads_scores_secretly(target, images, labels, budget, random, queries):
    best, lowest = images.clone(), torch.full((len(images),), torch.inf)
    for _ in range(queries):
        point = budget.random_point(images, random)
        score = target(point).gather(1, labels[:, None]).squeeze(1)
        better = score < lowest
        best[better], lowest = point[better], torch.minimum(score, lowest)
    return best


@called
def needs_a_deterministic_model(target, images, labels, budget, random, queries):
    if target.randomised:
        raise RuntimeError("not made for these")
    return images


def undocumented(steps: int = 3) -> Honest:
    """Builds it."""
    return Honest(steps)


def untyped(steps=3) -> Honest:
    """Builds it.

    Args:
        steps: How often it steps.
    """
    return Honest(steps)


def forgets_what_it_was_told(steps: int = 3, loss: Callable[..., Any] = _loss) -> Honest:
    """Builds it.

    Args:
        steps: How often it steps.
        loss: Something that no file can hold.
    """
    return Honest(steps)


@attrs.frozen
class StartsHalfAgain(Honest):
    """One run and a half.

    Attributes:
        restarts: Runs.
    """

    restarts: float = 1.5


LAWLESS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "leaves-the-ball": (LeavesTheBall, "linf_stays_in_ball_and_box", {}),
    "leaves-the-box": (LeavesTheBox, "linf_stays_in_ball_and_box", {}),
    "divides-by-zero": (DividesByZero, "linf_survives_ties_and_zero_gradients", {}),
    "looks-at-others": (LooksAtOthers, "linf_gives_the_same_in_batches_of_any_size", {}),
    "knows-its-place": (KnowsItsPlace, "linf_gives_the_same_in_any_order_and_company", {}),
    "own-generator": (OwnGenerator, "linf_gives_the_same_in_any_order_and_company", {}),
    "learns": (Learns, "linf_gives_the_same_again", {}),
    "edits-weights": (EditsWeights, "linf_leaves_the_model_and_the_world_alone", {}),
    "switches-to-training": (SwitchesToTraining, "linf_leaves_the_model_and_the_world_alone", {}),
    "global-torch": (GlobalTorch, "linf_leaves_the_model_and_the_world_alone", {}),
    "global-numpy": (GlobalNumPy, "linf_leaves_the_model_and_the_world_alone", {}),
    "global-python": (GlobalPython, "linf_leaves_the_model_and_the_world_alone", {}),
    "wants-doubles": (WantsDoubles, "linf_leaves_the_model_and_the_world_alone", {}),
    "moves-its-centre": (MovesItsCentre, "linf_stays_in_ball_and_box", {}),
    "does-nothing": (DoesNothing, "linf_finds_what_is_everywhere", {}),
    "assumes-unit-bounds": (AssumesUnitBounds, "linf_takes_other_bounds", {}),
    "ignores-its-target": (Honest, "linf_aims_at_the_target", {"targeted": True}),
    "spends-twice": (spends_twice, "linf_costs_no_more_than_it_says", {}),
    "never-gives-up": (never_gives_up, "linf_ends_when_its_queries_are_spent", {}),
    "loses-the-batch-axis": (loses_the_batch_axis, "linf_takes_empty_and_single_batches", {}),
    "first-row-only": (first_row_only, "linf_takes_empty_and_single_batches", {}),
    "peeks": (peeks_at_the_callers_labels, "linf_takes_labels_of_any_integer_type", {}),
    "takes-gradients": (takes_gradients_secretly, "linf_uses_what_it_declares", {"access": "scores"}),
    "reads-scores": (reads_scores_secretly, "linf_uses_what_it_declares", {"access": "labels"}),
    "hates-chance": (needs_a_deterministic_model, "linf_cannot_bend_a_coin", {}),
    "hates-ensembles": (needs_a_deterministic_model, "linf_works_on_randomised_models", {}),
    "undocumented": (undocumented, "documents_every_option", {}),
    "untyped": (untyped, "documents_every_option", {}),
    "unwritable": (forgets_what_it_was_told, "has_settings_that_build_it_again", {}),
    "half-again": (StartsHalfAgain, "has_a_loop_that_can_be_run", {}),
    "no-reference": (Honest, "is_registered_and_described", {"reference": ""}),
    "no-sentence": (Honest, "is_registered_and_described", {"summary": "Climbs"}),
    "no-norm": (Honest, "declares_norms_that_exist", {"norms": ()}),
    "strange-norm": (Honest, "declares_norms_that_exist", {"norms": ("linf", "l7")}),
}


def entry(name: str, build: Any, **changes: Any) -> AttackEntry:
    described = {"summary": "For this test.", "reference": "none", "norms": ("linf",)}
    return AttackEntry(name=name, build=build, **{**described, **changes})


class Plugin:
    """All of them, and two that are as they should be."""

    @hookimpl
    def unmask_attacks(self):
        lawless = [entry(name, build, **changes) for name, (build, _, changes) in LAWLESS.items()]
        honest = [
            entry("honest", Honest, norms=("linf", "l2", "l1")),
            entry("honest-queries", honest_queries, access="labels"),
        ]
        return [*lawless, *honest]


@pytest.fixture(autouse=True)
def installed() -> Iterator[Catalog]:
    plugin = Candidate("lawless", "1", "plugin", "lawless", Plugin)
    with using(Catalog(load_plugins([*installed_candidates(), plugin]))) as catalog:
        assert not [failure for failure in catalog.failures if failure.distribution == "lawless"]
        yield catalog


@pytest.mark.parametrize("name", ["honest", "honest-queries"])
def test_an_honest_attack_passes_every_check(name: str) -> None:
    tests = conformance(name)
    assert len(tests) >= 25
    for test in tests.values():
        test()


@pytest.mark.parametrize("name", LAWLESS)
def test_a_lawless_attack_is_caught_by_the_check_made_for_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_checks, "SECONDS", 0.3)
    _, check, _ = LAWLESS[name]
    test = conformance(name)[f"test_attack_{name.replace('-', '_')}_{check}"]
    state = torch.get_rng_state(), torch.get_default_dtype()
    with pytest.raises(LawBroken) as caught:
        test()
    assert torch.equal(torch.get_rng_state(), state[0])
    assert torch.get_default_dtype() == state[1]
    broken = caught.value
    assert f"attack '{name}'" in broken.entry
    assert broken.law == test.__doc__
    assert broken.law.endswith(".")
    assert broken.found
    assert broken.remedy[0].isupper()
    assert all(part in str(broken) for part in ("law: ", "found: ", "what to do: "))


def test_every_check_that_an_attack_can_break_has_a_lawless_one() -> None:
    """What is left is what the evaluation itself guarantees, whatever an attack does."""
    guaranteed = {
        "does_nothing_at_radius_zero",
        "leaves_clean_errors_alone",
        "never_raises_accuracy",
        "reaches_its_target_or_is_told_not_to",
        "names_a_recipe_that_exists",  # of models and front ends
    }
    checks = {name.removeprefix("test_attack_honest_") for name in conformance("honest", norms=["linf"])}
    caught = {check for _, check, _ in LAWLESS.values()}
    assert {check.removeprefix("linf_") for check in checks - caught} == guaranteed


def test_names_say_what_is_tested_and_never_collide() -> None:
    names = [
        *conformance("honest", norms=["l2"]),
        *conformance("honest", norms=["l1"]),
        *conformance("honest", norms=["l2"], options={"steps": 9}, label="long"),
    ]
    assert len(set(names)) == len(names) - 6  # what no norm and no label tells apart
    assert "test_attack_honest_l2_stays_in_ball_and_box" in names
    assert "test_attack_honest_l2_long_stays_in_ball_and_box" in names


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "honset"}, "Did you mean 'honest'"),
        ({"name": "honest", "kind": "model"}, "there is no model 'honest'"),
        ({"name": "honest", "kind": "sport"}, "no kind of component"),
        ({"name": "honest", "options": {"stepz": 2}}, "Did you mean 'steps'"),
        ({"name": "module"}, "needs the option 'factory'"),
        ({"name": "honest", "norms": ["l3"]}, "does not declare the norm 'l3'"),
        ({"name": "front-end", "kind": "recipe", "options": {"batch": "x"}}, "batch"),
    ],
)
def test_mistakes_are_answered_in_words(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        conformance(**arguments)


def test_an_entry_of_every_kind_can_be_tested_and_what_is_ambiguous_must_be_said(
    installed: Catalog,
) -> None:
    class Twice:
        @hookimpl
        def unmask_attacks(self):
            return [entry("jpeg", Honest)]

    both = Candidate("twice", "1", "plugin", "twice", Twice)
    with using(Catalog(load_plugins([*installed_candidates(), both]))):
        with pytest.raises(UserError, match='kind="front-end" or kind="attack"'):
            conformance("jpeg")
        assert any("front_end" in name for name in conformance("jpeg", kind="front-end"))
        assert any("attack" in name for name in conformance("twice:jpeg"))


def test_two_lines_make_a_test_file(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        'from unmask.testing import conformance\n\nglobals().update(conformance("fgsm", norms=["l2"]))\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "test_attack_fgsm_l2_stays_in_ball_and_box PASSED" in done.stdout


def test_the_kit_needs_no_pytest() -> None:
    code = "import sys, unmask.testing; sys.exit('pytest' in sys.modules or 'hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
