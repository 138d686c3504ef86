"""Preparing models: what answers in a search is the model, only faster, and verdicts stay the model's own."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import unmask
from unmask.evaluation.batching import buckets
from unmask.evaluation.inspection import inspect_model
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.preparation import choosing, preparing, probing
from unmask.evaluation.preparation.folding import fold_batch_norm
from unmask.evaluation.preparation.forms import (
    Bfloat16,
    Compilations,
    Form,
    Forms,
    InSinglePrecision,
    build,
)
from unmask.evaluation.preparation.workload import operations, passes
from unmask.evaluation.target import Target


class Net(nn.Module):
    """Two normalised convolutions with a residual path, and a linear layer."""

    def __init__(self, seed: int = 0, width: int = 8) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv1, self.bn1 = nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.linear = nn.Linear(width, 4)
        for norm in (self.bn1, self.bn2):
            norm.running_mean.normal_(0, 0.2)
            norm.running_var.uniform_(0.5, 2.0)
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias)

    def forward(self, images: Tensor) -> Tensor:
        x = self.bn1(self.conv1(images)).relu()
        x = (x + self.bn2(self.conv2(x))).relu()
        return self.linear(x.mean((2, 3))) * 20


@pytest.fixture(scope="module")
def problem():
    with torch.random.fork_rng():
        model = Net().eval()
        torch.manual_seed(1)
        images = torch.rand(40, 3, 8, 8)
    with torch.no_grad():
        labels = model(images).argmax(1)
    return model, images, labels


def attacked(problem, model=None, **options):
    own, images, labels = problem
    options = {"attacks": {"pgd": unmask.attack("pgd", steps=5)}, "epsilons": [0.03]} | options
    return unmask.evaluate(own if model is None else model, images, labels, **options)


def recorded(results, name: str = "model"):
    return json.loads(results.attrs["preparation"])["models"][name]


def test_folding_is_the_algebra_of_convolution_and_normalisation(problem) -> None:
    model, images, _ = problem
    with torch.random.fork_rng():
        folded = Net().eval()
    folded.load_state_dict(model.state_dict())
    assert fold_batch_norm(folded, images[:8]) == 2
    assert isinstance(folded.bn1, nn.Identity)
    assert isinstance(folded.bn2, nn.Identity)
    torch.testing.assert_close(folded(images), model(images), rtol=1e-5, atol=1e-5)
    # In closed form for one channel: weight * gamma / sqrt(var + eps).
    scale = model.bn1.weight / (model.bn1.running_var + model.bn1.eps).sqrt()
    torch.testing.assert_close(folded.conv1.weight, model.conv1.weight * scale[:, None, None, None])


def test_the_layer_that_gives_the_logits_stays_in_single_precision(problem) -> None:
    """Its steps are then far finer than bfloat16's, of which there are 128 between powers of two."""
    model, images, _ = problem
    form = build("channels-last", model, images[:16], True, Compilations())
    assert isinstance(form.gradient.module.linear, InSinglePrecision)
    for module in (form.gradient, Bfloat16(form.gradient.module)):
        assert next(m for m in module.modules() if isinstance(m, InSinglePrecision)).linear.weight.dtype == (
            torch.float32
        )
        with torch.no_grad():
            logits = module(images) / 20
        assert not torch.equal(logits, logits.bfloat16().float())
    assert type(model.linear) is nn.Linear


def test_a_convolution_that_is_called_twice_is_not_folded() -> None:
    class Twice(Net):
        def forward(self, images: Tensor) -> Tensor:
            x = self.bn2(self.conv2(self.bn1(self.conv1(images))))
            return self.linear(self.bn2(self.conv2(x)).mean((2, 3)))

    with torch.random.fork_rng():
        model = Twice().eval()
    assert fold_batch_norm(model, torch.rand(2, 3, 8, 8)) == 1
    assert isinstance(model.bn1, nn.Identity)


class Shared(Net):
    """A convolution's output is used before its normalisation too."""

    def forward(self, images: Tensor) -> Tensor:
        raw = self.conv1(images)
        x = (raw + self.bn1(raw)).relu()
        return self.linear(self.bn2(self.conv2(x)).mean((2, 3))) * 20


def shared_problem():
    with torch.random.fork_rng():
        model = Shared().eval()
    images = torch.rand(16, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return model, images, model(images).argmax(1)


def test_a_convolution_whose_output_is_also_used_elsewhere_is_not_folded() -> None:
    model, images, labels = shared_problem()
    form = build("channels-last", model, images, False, Compilations())
    assert form.folded == 1
    assert isinstance(form.gradient.bn1, nn.BatchNorm2d)
    assert isinstance(form.gradient.bn2, nn.Identity)
    assert probing.disagreement(model, form.gradient, images, False) is None
    with torch.no_grad():
        torch.testing.assert_close(form.forward(images), model(images), rtol=1e-4, atol=1e-4)
    assert recorded(attacked((model, images, labels), prepare="channels-last"))["backend"] == "channels-last"


def test_a_form_that_changes_the_answers_is_noticed(monkeypatch) -> None:
    model, images, labels = shared_problem()
    monkeypatch.setattr("unmask.evaluation.preparation.folding._same", lambda *arguments: True)
    form = build("channels-last", model, images, False, Compilations())
    assert form.folded == 2
    assert "answers differ" in str(probing.disagreement(model, form.gradient, images, False))
    results = attacked((model, images, labels), prepare="channels-last")
    assert recorded(results)["backend"] == "eager"
    assert len([w for w in json.loads(results.attrs["warnings"]) if "cannot be prepared" in w]) == 1


class _Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, images):
        return images.clone()

    @staticmethod
    def backward(ctx, gradient):
        return torch.zeros_like(gradient)


class Masking(Net):
    """A defence that hides its gradient."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(_Masked.apply(images))


@pytest.mark.parametrize("name", ["channels-last", "folded"])
def test_a_hidden_gradient_stays_hidden(name) -> None:
    with torch.random.fork_rng():
        model = Masking().eval()
    images = torch.rand(16, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    form = build(name, model, images, False, Compilations())
    assert form.folded == 2
    x = images.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(form.gradient(x).sum(), x)
    assert not gradient.any()
    assert probing.disagreement(model, form.gradient, images, False) is None


def test_a_form_with_other_gradients_is_noticed(problem) -> None:
    model, images, _ = problem
    with torch.random.fork_rng():
        hidden = Masking().eval()
    hidden.load_state_dict(model.state_dict())
    assert "gradients vanish" in str(probing.disagreement(model, hidden, images[:16], False))

    class Rounded(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return model(images).detach() + (images - images.detach()).sum((1, 2, 3))[:, None] * 3

    assert "gradients differ" in str(probing.disagreement(model, Rounded(), images[:16], False))


def test_a_form_whose_rows_depend_on_their_batch_is_noticed(problem) -> None:
    model, images, _ = problem

    class Coupled(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return model(images) + 1e-3 * images.mean()

    assert not probing.unsteady(model, images[:16], graph=True)
    assert probing.unsteady(Coupled(), images[:16], graph=False)


def test_prepared_searches_find_what_plain_ones_find(problem) -> None:
    plain, prepared = attacked(problem, prepare="eager"), attacked(problem, prepare="channels-last")
    assert recorded(plain)["backend"] == "eager"
    record = recorded(prepared)
    assert record["backend"] == "channels-last"
    assert record["folded"] == 2
    assert 0 < record["max-logit-difference"] < 1e-3
    np.testing.assert_array_equal(prepared.correct, plain.correct)
    np.testing.assert_array_equal(prepared.clean_margin, plain.clean_margin)
    np.testing.assert_allclose(prepared.margin, plain.margin, atol=0.05)


def test_verdicts_are_the_plain_models_own_to_the_bit(problem) -> None:
    model, _, labels = problem
    for options in ({"prepare": "channels-last"}, {"precision": "fast"}):
        results = attacked(problem, keep_examples=True, **options)
        final = torch.tensor(results.adversarial.values[0, 0, 0])
        with torch.no_grad():
            logits = model(final).double()
        others = logits.scatter(1, labels[:, None], -torch.inf).amax(1)
        margin = logits.gather(1, labels[:, None]).squeeze(1) - others
        np.testing.assert_array_equal(results.margin.values[0, 0, 0], margin)
        np.testing.assert_array_equal(results.correct.values[0, 0, 0], (margin > 0).double())


@pytest.mark.parametrize("patience", [0, 3])
@pytest.mark.parametrize("options", [{"prepare": "channels-last"}, {"precision": "fast"}])
def test_outcomes_do_not_depend_on_the_batch(problem, options, patience, monkeypatch) -> None:
    monkeypatch.setattr(preparing, "PATIENCE", patience)
    one = attacked(problem, batch_size=64, **options)
    other = attacked(problem, batch_size=7, **options)
    for name in ("correct", "margin", "distance", "forwards", "backwards", "status"):
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_the_model_is_left_as_it_was(problem) -> None:
    model, _, _ = problem
    before = {name: value.clone() for name, value in model.state_dict().items()}
    flags = [(p.requires_grad, p.is_contiguous()) for p in model.parameters()]
    attacked(problem, prepare="channels-last")
    attacked(problem, attacks={"pgd": unmask.attack("pgd", steps=12)}, precision="fast")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert flags == [(p.requires_grad, p.is_contiguous()) for p in model.parameters()]
    assert not any(m._forward_hooks for m in model.modules())


def test_small_runs_are_not_prepared_and_large_ones_are(problem, monkeypatch) -> None:
    assert recorded(attacked(problem))["backend"] == "eager"
    monkeypatch.setattr(choosing, "WORTH_PREPARING", 1.0)
    monkeypatch.setattr(preparing, "PATIENCE", 3)
    record = recorded(attacked(problem))
    assert set(record["seconds-per-image"]) == {"channels-last", "folded", "eager"}


@pytest.mark.parametrize("options", [{}, {"precision": "fast"}])
def test_nothing_is_prepared_where_searches_are_short(problem, options, monkeypatch) -> None:
    monkeypatch.setattr(choosing, "WORTH_PREPARING", 1.0)
    monkeypatch.setattr(choosing.Choosing, "choose", lambda *_: pytest.fail("prepared"))
    results = attacked(problem, attacks={"pgd": unmask.attack("pgd", steps=5)}, **options)
    assert "not prepared" in recorded(results)["note"]
    np.testing.assert_array_equal(results.margin, attacked(problem, prepare="eager").margin)


def test_a_model_that_an_attack_has_changed_is_not_prepared(problem, monkeypatch) -> None:
    monkeypatch.setattr(choosing, "WORTH_PREPARING", 1.0)
    model, _, _ = problem

    def vandal(target, images, labels, budget, random):
        with torch.no_grad():
            model.conv1.weight.mul_(2)
        for _ in range(preparing.PATIENCE + 1):
            target(images)
        return images

    results = attacked(problem, attacks={"vandal": vandal, "pgd": unmask.attack("pgd", steps=12)})
    assert (results.status.sel(attack="vandal") == 6).all()
    plain = attacked(problem, attacks={"pgd": unmask.attack("pgd", steps=12)}, prepare="eager")
    np.testing.assert_allclose(results.margin.sel(attack="pgd"), plain.margin.sel(attack="pgd"), atol=0.05)


def test_an_earlier_candidate_is_passed_over_only_when_clearly_slower() -> None:
    preferred = choosing.Choosing._preferred
    names = ["channels-last", "folded", "eager"]
    assert preferred(names, {"channels-last": 1.0, "folded": 0.95, "eager": 0.95})[0] == "channels-last"
    assert preferred(names, {"channels-last": 1.0, "folded": 0.5, "eager": 0.48})[0] == "folded"
    assert preferred(names, {"channels-last": 1.0, "folded": 2.0, "eager": 0.5})[0] == "eager"


def test_a_run_that_goes_on_goes_on_with_what_was_chosen(problem, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(choosing, "WORTH_PREPARING", 1.0)
    monkeypatch.setattr(preparing, "PATIENCE", 0)
    first = attacked(problem, out=tmp_path)
    chosen = json.loads((tmp_path / "preparation.json").read_text())["model"]["backend"]
    for cell in (tmp_path / "cells").glob("*.cell"):
        cell.unlink()
    monkeypatch.setattr(choosing.Choosing, "_seconds", lambda *_: pytest.fail("measured again"))
    again = attacked(problem, out=tmp_path)
    assert recorded(again)["backend"] == chosen
    np.testing.assert_array_equal(again.margin, first.margin)


def test_front_ends_and_backbones_are_prepared_apart_and_shared(problem) -> None:
    model, images, labels = problem

    class Smooth(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)

        def forward(self, images: Tensor) -> Tensor:
            return images + 0.01 * self.norm(self.conv(images))

    with torch.random.fork_rng():
        guarded = unmask.Defended(Smooth(), model).eval()
    attacks = {
        "straight": unmask.attack("pgd", steps=3, gradient={"use": "bypass", "at": "front-end"}),
        "around": unmask.attack("pgd", steps=3, gradient={"use": "bypass", "at": "input"}),
    }
    runs = [
        unmask.evaluate({"guarded": guarded}, images, labels, attacks, [0.03], prepare=prepare)
        for prepare in ("eager", "channels-last")
    ]
    assert recorded(runs[1], "guarded")["folded"] == 3
    np.testing.assert_array_equal(runs[0].correct, runs[1].correct)
    np.testing.assert_allclose(runs[0].margin, runs[1].margin, atol=0.05)


def test_what_cannot_be_prepared_is_said_once_and_searched_as_it_is(known) -> None:
    results = unmask.evaluate(
        known.Coin(0.7).eval(),
        torch.rand(6, 1, 2, 2),
        torch.zeros(6, dtype=torch.long),
        {"pgd": unmask.attack("pgd", steps=2)},
        [0.1],
        prepare="channels-last",
        draws=8,
    )
    warnings = [w for w in json.loads(results.attrs["warnings"]) if "searched as it is" in w]
    assert len(warnings) == 1
    assert "random numbers" in warnings[0]


def test_unknown_forms_are_refused_in_words(problem) -> None:
    with pytest.raises(unmask.errors.UserError, match="Did you mean 'channels-last'"):
        attacked(problem, prepare="channel-last")


@pytest.mark.slow
def test_torchscript_answers(problem) -> None:
    results = attacked(problem, prepare="torchscript")
    assert recorded(results)["backend"] == "torchscript"
    assert json.loads(results.attrs["preparation"])["compilations"] == 1
    np.testing.assert_array_equal(results.correct, attacked(problem, prepare="eager").correct)


def test_compiled_forms_see_only_buckets(problem) -> None:
    model, images, labels = problem
    seen: list[int] = []

    class Watched(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            seen.append(len(images))
            return model(images)

    facts = inspect_model(model, images, labels)
    watched = Watched()
    forms = Forms({id(model): Form("inductor", watched, watched)}, compiled=True)
    oracle = Oracle(facts, 64, lambda: (forms, 64))
    many = images.repeat(4, 1, 1, 1)
    for n in (1, 8, 13, 40, 50, 97, 160):
        answer = oracle.answer(facts.members[0], many[:n], None)
        torch.testing.assert_close(answer, model(many[:n]))
    assert set(seen) <= set(buckets(64)) == {8, 16, 32, 64}


@pytest.mark.slow
def test_buckets_bound_the_compilations_and_frozen_weights_give_the_models_answers(problem) -> None:
    model, images, _ = problem
    compilations = Compilations()
    form = build("inductor", model, images[:16], False, compilations)
    many = images.repeat(4, 1, 1, 1)
    for _ in range(2):
        for size in (32, 16, 8, 64, 128):
            shown = many[:size]
            with torch.no_grad():
                torch.testing.assert_close(form.forward(shown), model(shown), rtol=1e-4, atol=1e-4)
            x, y = shown.clone().requires_grad_(), shown.clone().requires_grad_()
            torch.testing.assert_close(
                torch.autograd.grad(form.gradient(x).square().sum(), x)[0],
                torch.autograd.grad(model(y).square().sum(), y)[0],
                rtol=1e-3,
                atol=1e-2,
            )
    # With and without gradients, each once more where the number of rows is also the width of the images.
    assert 2 <= compilations.count <= 4


@pytest.mark.slow
def test_no_evaluation_in_a_process_is_left_uncompiled(problem) -> None:
    """PyTorch compiles a piece of code eight times at most, and then runs it as it is in silence."""
    model, images, labels = problem
    counts = []
    for _ in range(4):
        results = attacked((model, images[:16], labels[:16]), prepare="inductor")
        assert recorded(results)["backend"] == "inductor"
        counts.append(json.loads(results.attrs["preparation"])["compilations"])
    assert len(set(counts)) == 1
    assert counts[0] >= 2


@pytest.mark.slow
def test_frozen_weights_are_part_of_what_is_compiled(problem, monkeypatch) -> None:
    freezing = pytest.importorskip("torch._inductor.freezing")
    kept, freeze = [], freezing.freeze

    def watched(*arguments, **options):
        graph, inputs = freeze(*arguments, **options)
        kept.append((len(inputs), sum(node.op == "get_attr" for node in graph.graph.nodes)))
        return graph, inputs

    monkeypatch.setattr(freezing, "freeze", watched)
    model, images, _ = problem
    form = build("inductor", model, images[:16], False, Compilations())
    with torch.no_grad():
        form.forward(images)
    ((inputs, constants),) = kept
    # The images and their sizes; weights and biases of two convolutions and a linear layer.
    assert inputs <= 3
    assert constants >= 5


def test_a_compiler_that_compiles_nothing_is_passed_over(problem, monkeypatch) -> None:
    monkeypatch.setattr("torch.compile", lambda module, **options: module)
    results = attacked(problem, prepare="inductor")
    assert recorded(results)["backend"] == "eager"
    assert recorded(results)["passed-over"] == {"inductor": "nothing of it was compiled"}


class Small(nn.Module):
    """Holds so many rows; on the CPU memory runs out with an exception of another kind."""

    def __init__(self, net: nn.Module, rows: int, kind: str) -> None:
        super().__init__()
        self.net, self.rows, self.kind = net, rows, kind

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > self.rows:
            if self.kind == "cpu":
                raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
            raise torch.OutOfMemoryError("tried to allocate 3 GiB")
        return self.net(images)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("precision", ["float32", "fast"])
@pytest.mark.parametrize("prepare", ["auto", "eager", "channels-last", "torchscript"])
@pytest.mark.parametrize("rows", [17, 33, 41, 63])
def test_a_model_that_hardly_fits_into_memory_is_evaluated_all_the_same(
    problem, rows, prepare, precision, kind
) -> None:
    model = problem[0]
    attacks = {"pgd": unmask.attack("pgd", steps=12), "square": unmask.attack("square", queries=20)}
    options = {"attacks": attacks, "precision": precision, "prepare": prepare}
    results = attacked(problem, model=Small(model, rows, kind).eval(), **options)
    assert not (results.message != "").any()
    expected = attacked(problem, attacks=attacks)
    if precision == "float32":
        np.testing.assert_array_equal(results.correct, expected.correct)
    assert abs(results.correct.mean() - expected.correct.mean()) <= 1 / 40


def test_a_model_that_does_not_fit_into_memory_is_refused_in_words(problem) -> None:
    model = problem[0]
    with pytest.raises(unmask.errors.UserError, match=r"models.model: 16 images .* do not fit into memory"):
        attacked(problem, model=Small(model, 10, "cuda").eval(), batch_size=1)


@pytest.mark.parametrize("precision", ["float32", "fast"])
@pytest.mark.parametrize("prepare", ["auto", "channels-last"])
def test_a_finished_run_that_is_run_again_says_how_it_was_prepared(
    problem, tmp_path, monkeypatch, prepare, precision
) -> None:
    monkeypatch.setattr(choosing, "WORTH_PREPARING", 1.0)
    options = {"prepare": prepare, "precision": precision, "out": tmp_path / "run"}
    options["attacks"] = {"pgd": unmask.attack("pgd", steps=preparing.PATIENCE + 4)}
    first, again = (recorded(attacked(problem, **options)) for _ in range(2))
    assert first["precision"] == ("bfloat16" if precision == "fast" else "float32")
    assert again["backend"] == first["backend"]
    kept = {"prepared-in", "seconds-per-image"}
    assert {k: v for k, v in again.items() if k not in kept} == {
        k: v for k, v in first.items() if k not in kept
    }


def test_what_another_process_has_chosen_stays_written_down(problem, tmp_path) -> None:
    model, images, labels = problem
    with torch.random.fork_rng():
        other = Net(1).eval()
    options = {"out": tmp_path / "run", "prepare": "channels-last"}
    unmask.evaluate({"a": model, "b": other}, images, labels, {"fgsm": "fgsm"}, [0.03], **options)
    written = (tmp_path / "run" / "preparation.json").read_text()
    assert set(json.loads(written)) == {"a", "b"}
    unmask.evaluate({"a": model, "b": other}, images, labels, {"fgsm": "fgsm"}, [0.03], **options)
    again = json.loads((tmp_path / "run" / "preparation.json").read_text())
    assert {n: r["backend"] for n, r in again.items()} == dict.fromkeys("ab", "channels-last")


@pytest.mark.parametrize(
    "damage",
    [
        {"backend": "nonsense"},
        {"rows-per-call": "many"},
        {"rows-per-call": -5},
        {"rows-per-call": True},
        {"precision": "float8"},
        {"batch-size": None},
    ],
)
def test_a_damaged_choice_is_made_anew(problem, tmp_path, damage) -> None:
    options = {"out": tmp_path / "run", "prepare": "channels-last"}
    first = attacked(problem, **options)
    place = tmp_path / "run" / "preparation.json"
    place.write_text(json.dumps({"model": {**json.loads(place.read_text())["model"], **damage}}))
    for cell in (tmp_path / "run" / "cells").iterdir():
        cell.unlink()
    again = attacked(problem, **options)
    assert again.correct.identical(first.correct)
    for key in damage:
        assert recorded(again)[key] == recorded(first)[key]


def test_only_the_first_search_of_a_run_is_patient(problem, monkeypatch) -> None:
    """The second asks the form from its first question on, so that a slow model is not asked in vain."""
    monkeypatch.setattr(choosing, "WORTH_PREPARING", 1.0)
    asked: list[tuple[str, bool]] = []
    answered = Target._answered_by
    now = ""

    def watched(self, oracle, images, rows, ask):
        asked.append((now, oracle is oracle.plain))
        return answered(self, oracle, images, rows, ask)

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(self, target, images, labels, budget, random):
            nonlocal now
            now = self.name
            for _ in range(preparing.PATIENCE + 2):
                target(images)
            return images

    monkeypatch.setattr(Target, "_answered_by", watched)
    monkeypatch.setattr(choosing.Choosing, "_preferred", staticmethod(lambda candidates, times: candidates))
    results = attacked(problem, attacks={name: Named(name) for name in ("first", "second")}, epsilons=[0.01])
    assert recorded(results)["backend"] == "channels-last"
    assert [plain for name, plain in asked if name == "first"] == [True] * preparing.PATIENCE + [False] * 2
    assert not any(plain for name, plain in asked if name == "second")


def test_work_is_counted() -> None:
    model = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.Flatten(), nn.Linear(5 * 4 * 4, 7))
    assert operations(model, torch.rand(1, 3, 4, 4)) == 2 * (5 * 16 * 27 + 7 * 80)
    assert passes(unmask.attack("pgd", steps=20, restarts=3)) == 60
    assert passes(unmask.attack("square", queries=500, max_queries=200)) == 200


class InPlace(nn.Module):
    """Works in its input, and in the answers of its layers."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.net(images.sub_(0.5).mul_(2))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "fast"])
@pytest.mark.parametrize("prepare", ["eager", "channels-last", "torchscript", "inductor"])
def test_models_that_work_in_place_leave_the_images_alone_in_every_form(problem, prepare, precision) -> None:
    model, images, _ = problem
    guest, before = InPlace(model).eval(), images.clone()
    with torch.no_grad():
        labels = guest(images.clone()).argmax(1)
    results = attacked((guest, images, labels), prepare=prepare, precision=precision)
    assert torch.equal(images, before)
    plain = attacked((guest, images, labels), prepare="eager")
    assert abs(results.correct.mean() - plain.correct.mean()) <= (0 if precision == "float32" else 1 / 40)
    assert not any("Error" in why for why in recorded(results).get("passed-over", {}).values())
