"""An existing script for AutoAttack runs with one import changed."""

from __future__ import annotations

import json
import logging

import pytest
import torch

from unmask.compat import AutoAttack
from unmask.compat.classifier import Classifier
from unmask.compat.state import EvaluationState
from unmask.errors import UserError


@pytest.fixture(scope="module")
def problem():
    """A net trained for a moment on digits, with images of which some are wrong."""
    from unmask_plugins.data.digits import digits

    data = digits("train")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(512, 10),
        )
        optimiser = torch.optim.Adam(net.parameters(), 0.003)
        for _ in range(40):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(data.images), data.labels).backward()
            optimiser.step()
    test = digits("test")
    return net.eval(), test.images[:40], test.labels[:40]


def script(cls, net, eps, **more):
    """As scripts are written."""
    adversary = cls(net, norm="Linf", eps=eps, version="custom", seed=0, **more)
    adversary.attacks_to_run = ["apgd-ce", "apgd-t", "fab-t", "square"]
    adversary.apgd.n_restarts = 1
    adversary.apgd.n_iter = 20
    adversary.apgd_targeted.n_target_classes = 3
    adversary.apgd_targeted.n_iter = 20
    adversary.fab.n_target_classes = 2
    adversary.fab.n_iter = 10
    adversary.square.n_queries = 200
    return adversary


def accuracy(net, images, labels):
    with torch.no_grad():
        return (net(images).argmax(1) == labels).double().mean().item()


@pytest.mark.parametrize("eps", [0.06, 0.12])
def test_it_returns_what_autoattack_returns(problem, eps):
    reference = pytest.importorskip("pyautoattack")
    net, images, labels = problem
    adversary = script(AutoAttack, net, eps, verbose=False)
    found, classes = adversary.run_standard_evaluation(images, labels, bs=16, return_labels=True)
    logging.getLogger("auto-attack").setLevel(logging.ERROR)
    theirs, their_classes = script(reference.AutoAttack, net, eps).run_standard_evaluation(images, labels)
    # The same samples fall, up to one whose border is as near as the searches are good.
    assert abs(accuracy(net, found, labels) - accuracy(net, theirs, labels)) <= 1 / 40
    assert found.shape == images.shape
    assert found.dtype == images.dtype
    assert (found.double() - images.double()).abs().max() <= eps
    assert found.min() >= 0
    assert found.max() <= 1
    with torch.no_grad():
        assert torch.equal(classes, net(found).argmax(1))
    assert classes.dtype == their_classes.dtype
    # Where nothing was found, and where nothing had to be, the image is returned.
    kept = classes == labels
    wrong = net(images).argmax(1) != labels
    assert 0 < kept.sum() < len(labels)
    assert torch.equal(found[kept | wrong], images[kept | wrong])


def test_labels_only_when_asked_and_the_model_is_left_alone(problem, capsys, tmp_path):
    net, images, labels = problem
    before = {key: value.clone() for key, value in net.state_dict().items()}
    adversary = AutoAttack(
        net, eps=0.1, version="custom", attacks_to_run=["apgd-ce"], seed=1, log_path=tmp_path / "log.txt"
    )
    adversary.apgd.n_iter = 5
    found = adversary.run_standard_evaluation(images, labels)
    assert isinstance(found, torch.Tensor)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(p.requires_grad for p in net.parameters())
    said = capsys.readouterr().out
    clean = accuracy(net, images, labels)
    assert f"initial accuracy: {clean:.2%}" in said
    assert f"robust accuracy after APGD-CE: {accuracy(net, found, labels):.2%}" in said
    assert "max Linf perturbation: 0.10000, nan in tensor: 0" in said
    assert (tmp_path / "log.txt").read_text() == said
    assert adversary.clean_accuracy(images, labels, bs=7) == pytest.approx(clean)


def test_one_attack_after_the_other(problem):
    net, images, labels = problem
    adversary = AutoAttack(
        net, eps=0.1, version="custom", attacks_to_run=["apgd-ce", "square"], verbose=False
    )
    adversary.apgd.n_iter, adversary.square.n_queries = 10, 50
    found = adversary.run_standard_evaluation_individual(images, labels, return_labels=True)
    assert list(found) == ["apgd-ce", "square"]
    alone = {name: (classes == labels) for name, (_, classes) in found.items()}
    together, classes = adversary.run_standard_evaluation(images, labels, return_labels=True)
    assert (classes == labels).sum() <= min(stands.sum() for stands in alone.values())
    assert adversary.attacks_to_run == ["apgd-ce", "square"]
    assert together.shape == images.shape


def test_versions_have_the_settings_of_the_original():
    reference = pytest.importorskip("pyautoattack")
    net = torch.nn.Linear(1, 1)
    for version in ("standard", "plus", "rand"):
        for norm in ("Linf", "L2", "L1"):
            ours, theirs = (
                AutoAttack(net, norm, version=version),
                reference.AutoAttack(net, norm=norm, version=version),
            )
            assert ours.attacks_to_run == theirs.attacks_to_run
            for part, names in {
                "apgd": ("n_restarts", "n_iter", "eot_iter"),
                "apgd_targeted": ("n_restarts", "n_iter", "n_target_classes"),
                "fab": ("n_restarts", "n_iter", "n_target_classes", "eta", "beta", "alpha_max"),
                "square": ("n_queries", "n_restarts", "p_init"),
            }.items():
                for name in names:
                    expected = getattr(getattr(theirs, part), name)
                    assert getattr(getattr(ours, part), name) == expected, (version, norm, part, name)


def test_a_state_file_is_gone_on_with(problem, tmp_path):
    net, images, labels = problem
    path = tmp_path / "state.json"

    def adversary():
        made = AutoAttack(
            net, eps=0.08, version="custom", attacks_to_run=["apgd-ce", "square"], seed=0, verbose=False
        )
        made.apgd.n_iter, made.square.n_queries = 10, 60
        return made

    whole, classes = adversary().run_standard_evaluation(images, labels, return_labels=True, state_path=path)
    state = EvaluationState.read(path)
    assert state.run_attacks == ("apgd-ce", "square")
    assert list(state.robust_flags) == (classes == labels).tolist()
    assert state.clean_accuracy == accuracy(net, images, labels)
    # What the first attack broke stays broken, and only the second is run.
    content = json.loads(path.read_text())
    content["_run_attacks"] = ["apgd-ce"]
    path.write_text(json.dumps(content))
    again, _ = adversary().run_standard_evaluation(images, labels, return_labels=True, state_path=path)
    broken = torch.tensor(content["_robust_flags"]).logical_not()
    assert torch.equal(again[broken], images[broken])
    assert EvaluationState.read(path).robust_flags == state.robust_flags
    assert whole.shape == again.shape

    other = adversary()
    other.attacks_to_run = ["apgd-ce"]
    with pytest.raises(UserError, match="belongs to the attacks apgd-ce, square"):
        other.run_standard_evaluation(images, labels, state_path=path)
    with pytest.raises(UserError, match="belongs to 40 samples, not 10"):
        adversary().run_standard_evaluation(images[:10], labels[:10], state_path=path)


def test_functions_are_models_too(problem):
    net, images, labels = problem
    adversary = AutoAttack(
        lambda shown: net(shown), eps=0.1, version="custom", attacks_to_run=["apgd-ce"], seed=0, verbose=False
    )
    adversary.apgd.n_iter = 3
    found = adversary.run_standard_evaluation(images[:8], labels[:8])
    assert accuracy(net, found, labels[:8]) < accuracy(net, images[:8], labels[:8])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"norm": "linf"}, "Did you mean 'Linf'"),
        ({"version": "standart"}, "Did you mean 'standard'"),
        ({"attacks_to_run": ["square"]}, "version 'standard' has its own"),
        ({"is_tf_model": True}, "TensorFlow"),
        ({"model": 3}, "must be a model"),
        ({"eps": -0.1}, "eps: must not be negative"),
        ({"eps": "8/0"}, "eps: '8/0' divides by zero"),
    ],
)
def test_refusals(change, said):
    with pytest.raises(UserError, match=said):
        AutoAttack(**{"model": torch.nn.Linear(1, 1), **change})


def test_settings_that_do_nothing_cannot_be_set(problem):
    net, images, labels = problem
    adversary = AutoAttack(net, eps=0.1, version="custom", verbose=False)
    with pytest.raises(AttributeError):
        adversary.apgd.n_restart = 3
    with pytest.raises(UserError, match="positive number"):
        adversary.square.n_queries = -1
    with pytest.raises(UserError, match="names no attack"):
        adversary.run_standard_evaluation(images, labels)
    adversary.attacks_to_run = ["apgd"]
    with pytest.raises(UserError, match="Did you mean 'apgd-"):
        adversary.run_standard_evaluation(images, labels)
    adversary.attacks_to_run = ["apgd-ce", "sqare"]
    with pytest.raises(UserError, match="Did you mean 'square'"):
        adversary.run_standard_evaluation(images, labels)


@pytest.mark.parametrize(
    ("images", "labels", "bs", "said"),
    [
        (lambda x: x * 255, lambda y: y, 250, "outside the bounds"),
        (lambda x: x[:0], lambda y: y[:0], 250, "there is nothing to evaluate"),
        (lambda x: x.numpy(), lambda y: y, 250, "x_orig: must be a torch.Tensor"),
        (lambda x: x, lambda y: y[:3], 250, "for 40 images; give one class index each"),
        (lambda x: x, lambda y: y.float(), 250, "class indices are integers"),
        (lambda x: x, lambda y: y, 0, "bs: must be at least 1"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_told(problem, capsys, images, labels, bs, said):
    net, x, y = problem
    adversary = AutoAttack(net, eps="8/255", seed=0)
    for evaluate in (adversary.run_standard_evaluation, adversary.clean_accuracy):
        with pytest.raises(UserError, match=said):
            evaluate(images(x), labels(y), bs=bs)
    assert capsys.readouterr().out == ""


def test_a_model_in_training_mode_is_refused_with_its_statistics_as_they_were(problem, capsys):
    _, images, labels = problem
    net = torch.nn.Sequential(torch.nn.BatchNorm2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10))
    with pytest.raises(UserError, match="in training mode"):
        AutoAttack(net, seed=0).run_standard_evaluation(images, labels)
    assert net[0].num_batches_tracked == 0
    assert capsys.readouterr().out == ""


def test_models_that_draw_leave_the_global_random_state_alone(problem):
    net, images, labels = problem

    class Noisy(torch.nn.Module):
        def forward(self, x):
            return net(x + 0.01 * torch.randn_like(x))

    before = torch.random.get_rng_state()
    AutoAttack(Noisy().eval(), verbose=False).clean_accuracy(images, labels)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_functions_are_called_where_the_script_says(problem):
    classifier = Classifier(lambda x: x, device="meta")
    assert {b.device.type for b in classifier.module(torch.device("cpu")).buffers()} == {"meta"}
