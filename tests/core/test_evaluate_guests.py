"""Models, attacks and inputs that do what one does not expect of them."""

from __future__ import annotations

import importlib.util
import json
import sys

import numpy as np
import pytest
import torch
from torch import nn

import unmask
from unmask.dimensions import Status


@pytest.fixture
def problem(known):
    return known.linear_problem(n=60)


def accuracy(model, images, labels, attack="fgsm", **more):
    return unmask.evaluate({"m": model}, images, labels, {"a": attack}, [0.05], **more)


def test_containers_of_models_in_eval_mode_are_in_eval_mode(problem):
    model, images, labels = problem
    front = nn.Identity().eval()
    for built in (unmask.Defended(front, model), unmask.RandomizedEnsemble([model, model])):
        assert not any(module.training for module in built.modules())
        accuracy(built, images, labels)
    assert unmask.Defended(nn.Dropout(), model).training
    with pytest.raises(unmask.errors.UserError, match=r"training mode: .*front_end"):
        accuracy(unmask.Defended(nn.Dropout(), model), images, labels)


class InPlace(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, images):
        images -= 0.1
        images.mul_(2.0)
        return self.inner(images)


def test_a_model_that_works_in_place_is_judged_like_one_that_does_not(problem):
    model, images, labels = problem

    class Apart(InPlace):
        def forward(self, images):
            return self.inner((images - 0.1) * 2.0)

    given = images.clone()
    attacks = {"pgd": unmask.attack("pgd", steps=5), "square": unmask.attack("square", queries=20)}
    a, b = (
        unmask.evaluate({"m": kind(model).eval()}, images, labels, attacks, [0.05])
        for kind in (InPlace, Apart)
    )
    assert torch.equal(images, given)
    np.testing.assert_array_equal(a.correct.values, b.correct.values)
    np.testing.assert_array_equal(a.margin.values, b.margin.values)


def test_an_attack_cannot_move_the_ball_of_the_judge(problem):
    def mover(target, images, labels, budget, random):
        object.__setattr__(budget, "epsilon", 1.0)
        object.__setattr__(budget, "bounds", (-9.0, 9.0))
        return (images + 0.9).clamp(0, 1)

    model, images, labels = problem
    results = accuracy(model, images, labels, mover)
    right = results.clean_correct.values[0] == 1
    assert (results.correct.values[0, 0, 0][right] == 1).all()
    moved = (images + 0.9).clamp(0, 1).sub(images).flatten(1).amax(1).numpy() > 0.06
    assert (results.status.values[0, 0, 0][right & moved] == Status.BUDGET_VIOLATION).all()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda model: model[0].weight.data.zero_(), "parameter 0.weight"),
        (lambda model: model[0].weight.data.fill_(torch.nan), "parameter 0.weight"),
        (lambda model: model.train(), "training flag"),
    ],
)
def test_an_attack_that_changes_the_model_costs_its_own_cell_alone(problem, change, named):
    linear, images, labels = problem
    model = nn.Sequential(linear).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def vandal(target, images, labels, budget, random):
        change(model)
        return images

    attacks = {"before": "fgsm", "vandal": vandal, "after": "fgsm"}
    results = unmask.evaluate({"m": model}, images, labels, attacks, [0.05])
    assert (results.status.sel(attack="vandal") == Status.FAILED).all()
    assert named in results.message.sel(attack="vandal").item()
    np.testing.assert_array_equal(results.correct.sel(attack="before"), results.correct.sel(attack="after"))
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    assert not model.training


def test_the_gradient_mode_is_the_callers_before_and_after(problem):
    def careless(target, images, labels, budget, random):
        torch.set_grad_enabled(False)
        return images

    model, images, labels = problem
    free = unmask.evaluate({"m": model}, images, labels, {"c": careless, "pgd": "pgd"}, [0.05])
    assert torch.is_grad_enabled()
    assert (free.status != Status.FAILED).all()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            again = unmask.evaluate({"m": model}, images, labels, {"c": careless, "pgd": "pgd"}, [0.05])
        np.testing.assert_array_equal(again.correct.values, free.correct.values)


def test_a_model_that_nothing_is_right_about_has_a_verdict(problem):
    model, images, _ = problem
    with torch.no_grad():
        wrong = (model(images).argmax(1) + 1) % 3
    results = unmask.evaluate({"m": model}, images, wrong, {"pgd": unmask.attack("pgd", steps=20)}, [0.1])
    assert results.unmask.verdict()["m"].label == "inconclusive"


class AtLeastTwo(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, images):
        if len(images) == 1:
            raise RuntimeError("batch size 1!")
        return self.inner(images)


def test_a_model_that_wants_more_than_one_image_gets_them(known):
    # 33 inputs: a size at which the place of a row in memory shows in its last bits.
    model, images, labels = known.linear_problem(n=20, shape=(1, 3, 11), classes=5)
    results = accuracy(AtLeastTwo(model).eval(), images, labels, batch_size=1)
    assert (results.status != Status.FAILED).all()


def softmaxed(model):
    return nn.Sequential(model, nn.Softmax(1)).eval()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: unmask.RandomizedEnsemble([m, softmaxed(m)]), "probabilities"),
        (lambda m: m.half(), "float16"),
        (lambda m: m.to(torch.bfloat16), "bfloat16"),
    ],
)
def test_models_that_cannot_be_judged_are_named_errors(problem, change, words):
    model, images, labels = problem
    with pytest.raises(unmask.errors.UserError, match=words):
        accuracy(change(model), images, labels)


def test_members_must_agree_on_the_classes_and_be_finite(known, problem):
    model, images, labels = problem
    other, _, _ = known.linear_problem(classes=5)
    with pytest.raises(unmask.errors.UserError, match="3 classes, another 5"):
        accuracy(unmask.RandomizedEnsemble([model, other]), images, labels)
    nan = known.Constant(float("nan"), 0.0, 0.0).eval()
    with pytest.raises(unmask.errors.UserError, match="NaN"):
        accuracy(unmask.RandomizedEnsemble([model, nan], [0.97, 0.03]), images, labels)


def test_a_model_that_exits_is_a_named_error(problem):
    class Leaving(nn.Module):
        def forward(self, images):
            sys.exit(0)

    _, images, labels = problem
    with pytest.raises(unmask.errors.UserError, match="SystemExit"):
        accuracy(Leaving().eval(), images, labels)


@pytest.mark.parametrize(
    ("labels", "words"),
    [(None, "labels"), (["3"] * 60, "numbers"), (np.array(["a"] * 60, dtype=object), "labels")],
)
def test_labels_that_are_no_numbers_are_refused(problem, labels, words):
    model, images, _ = problem
    with pytest.raises(unmask.errors.UserError, match=words):
        accuracy(model, images, labels)


def test_a_name_with_a_slash_is_refused(problem):
    model, images, labels = problem
    with pytest.raises(unmask.errors.UserError, match="a/b"):
        unmask.evaluate({"m": model}, images, labels, {"a/b": "fgsm"}, [0.1])


CODE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(12, 3)
        torch.nn.init.constant_(self.linear.weight, 0.1)
        torch.nn.init.zeros_(self.linear.bias)

    def forward(self, x):
        return SIGN * helper(self.linear(x.flatten(1)))

def helper(x):
    return x

def attack(target, images, labels, budget, random):
    return images + SHIFT
"""


def module_of(path, text):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("SIGN", "-1", "model 'm'"),
        ("return x\n", "return -x\n", "model 'm'"),
        ("SHIFT", "0.02", "attack 'a'"),
    ],
)
def test_edited_code_is_another_run(tmp_path, problem, old, new, named):
    _, images, labels = problem

    def run(text, name):
        code = module_of(tmp_path / f"{name}.py", text.replace("SIGN", "1").replace("SHIFT", "0.01"))
        return unmask.evaluate(
            {"m": code.Net().eval()}, images, labels, {"a": code.attack}, [0.05], out=tmp_path / "run"
        )

    run(CODE, "edited")
    run(CODE, "edited")
    with pytest.raises(unmask.errors.UserError, match=named):
        run(CODE.replace(old, new), "edited")


def test_what_a_closure_holds_is_part_of_an_attack(tmp_path, problem):
    model, images, labels = problem

    def shifting(by):
        def attack(target, images, labels, budget, random):
            return (images + by).clamp(0, 1)

        return attack

    unmask.evaluate({"m": model}, images, labels, {"a": shifting(0.01)}, [0.05], out=tmp_path / "run")
    with pytest.raises(unmask.errors.UserError, match="attack 'a'"):
        unmask.evaluate({"m": model}, images, labels, {"a": shifting(0.02)}, [0.05], out=tmp_path / "run")


class Late(torch.nn.Module):
    """Answers the images that the inspection looks at, and others, if they are bright, with NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits = self.linear(images.flatten(1))
        return torch.where(images.amax((1, 2, 3))[:, None] > 0.9, torch.nan, logits)


def test_logits_that_are_not_finite_are_told_of_where_they_are_noticed_late():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Late().eval()
    images = 0.8 * torch.rand(40, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(40) % 3
    images[30:] += 0.2
    images[30:, 0, 0, 0] = 1.0
    results = unmask.evaluate({"m": model}, images, labels, {"fgsm": "fgsm"}, [0.01])
    (said,) = [w for w in json.loads(results.attrs["warnings"]) if "NaN" in w]
    assert "model 'm' answers 10 of 40 clean images" in said
    assert (results.clean_correct.values[0, 30:] == 0).all()
