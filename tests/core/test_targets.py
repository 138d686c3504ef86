"""Targeted runs: what is refused, what counts as reached, and when a sample is done."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unmask
from unmask.errors import UserError
from unmask.manifest.checking import check_manifest
from unmask.manifest.reading import parse_manifest


def run(model, images, labels, attack, epsilons=(0.35,), **options):
    return unmask.evaluate({"m": model}, images, labels, {"a": attack}, list(epsilons), **options)


def pgd(**options):
    return unmask.attack("pgd", **{"steps": 20, "loss": "margin", **options})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"targeted": True}, "needs a target"),
        ({"target": 1}, "targeted = true"),
        ({"targeted": True, "target": -1}, "start at 0"),
        ({"targeted": True, "target": [0, -2]}, "start at 0"),
        ({"targeted": 1, "target": 1}, "true or false"),
        ({"targeted": True, "target": "cat"}, "whole number"),
    ],
)
def test_half_a_target_is_refused(options, said):
    with pytest.raises(UserError, match=said):
        pgd(**options)


def test_an_attack_without_a_targeted_mode_refuses():
    with pytest.raises(UserError, match="cannot be targeted"):
        unmask.attack("deepfool", targeted=True, target=1)
    # Written out as untargeted it is what it always is.
    assert not unmask.attack("deepfool", targeted=False).targeted


def test_targets_must_fit_models_and_samples(known):
    model, images, labels = known.linear_problem(classes=3)
    with pytest.raises(UserError, match=r"class 3 does not exist: the model 'm' has 3 classes"):
        run(model, images, labels, pgd(targeted=True, target=3))
    with pytest.raises(UserError, match="2 classes for 40 samples"):
        run(model, images, labels, pgd(targeted=True, target=[0, 1]))
    with pytest.raises(UserError, match="nothing to reach"):
        run(model, images, torch.full_like(labels, 2), pgd(targeted=True, target=2))
    with pytest.raises(UserError, match="nothing to reach"):
        run(model, images, labels, pgd(targeted=True, target=labels))
    others = (labels + 1) % 3
    others[7] = labels[7]
    with pytest.raises(UserError, match=rf"target\[7\].*1 of 40.*sample 7 is of class {int(labels[7])}"):
        run(model, images, labels, pgd(targeted=True, target=others))


def test_a_target_inside_another_attack_is_refused(known):
    model, images, labels = known.linear_problem()
    inner = {"use": "pgd", "targeted": True, "target": 1}
    with pytest.raises(UserError, match="inside it"):
        run(model, images, labels, unmask.attack("transfer", source="m", attack=inner))


MANIFEST = """
epsilons = ["8/255"]
data = {{ use = "digits", samples = 10 }}
models.backbone = {{ use = "small-cnn" }}
attacks.a = {{ {attack} }}
"""


def test_a_manifest_says_it_too():
    good = parse_manifest(MANIFEST.format(attack='use = "pgd", targeted = true, target = 3'))
    check_manifest(good)
    for attack, said in (
        ('use = "deepfool", targeted = true, target = 3', "cannot be targeted"),
        ('use = "pgd", target = 3', "targeted"),
        ('use = "transfer", source = "leave-one-out"', "only one"),
        (
            'use = "autoattack", version = "custom", attacks = ["deepfool"], targeted = true, target = 3',
            "'deepfool' cannot be targeted",
        ),
        ('use = "autoattack", engine = "reference", targeted = true, target = 3', "cannot be targeted"),
    ):
        with pytest.raises(UserError, match=said):
            check_manifest(parse_manifest(MANIFEST.format(attack=attack)))


def test_samples_of_the_targets_class_are_told_and_not_attacked(known):
    model, images, labels = known.linear_problem(classes=3)
    results = run(model, images, labels, pgd(targeted=True, target=1))
    same = (labels == 1).numpy()
    told = [w for w in eval(results.attrs["warnings"]) if "target's class" in w]
    assert len(told) == 1
    assert f"{same.sum()} of 40" in told[0]
    assert (results.forwards.values[0, 0, 0][same] == 0).all()
    assert np.isnan(results.target_reached.values[0, 0, 0][same]).all()
    np.testing.assert_array_equal(
        results.correct.values[0, 0, 0][same], results.clean_correct.values[0][same]
    )


def test_wrong_is_not_yet_reached_and_a_reached_sample_asks_no_more(known):
    """Class 1 lies on the way to class 2: a run towards 2 does not stop at 1."""
    weight = torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    bias = torch.tensor([1.0, 0.8, 0.0])
    model = known.Linear(weight, bias).eval()
    images = torch.tensor([[0.0, 0.5]]).reshape(1, 1, 1, 2)
    labels = torch.tensor([0])
    # From x = 0.2 on class 1 wins; from 0.8 on class 2 does.
    attack = pgd(targeted=True, target=2, steps=10, step_size=0.1, random_start=False)
    results = run(model, images, labels, attack, [0.5, 0.95])
    assert results.prediction.values[0, 0, :, 0].tolist() == [1, 2]
    assert results.correct.values[0, 0, :, 0].tolist() == [0, 0]
    assert results.target_reached.values[0, 0, :, 0].tolist() == [0, 1]
    # Ten steps and a last look; and nine steps, the ninth of which was the first to see class 2.
    assert results.forwards.values[0, 0, :, 0].tolist() == [11, 10]
    free = run(model, images, labels, pgd(steps=10, step_size=0.1, random_start=False), [0.95])
    assert int(free.forwards.item()) < 10


def test_what_was_reached_at_a_smaller_radius_counts_at_a_larger_one(known):
    model, images, labels = known.linear_problem(classes=3)
    results = run(model, images, labels, pgd(targeted=True, target=0), [0.1, 0.2, 0.3, 0.5])
    reached = results.target_reached.values[0, 0]
    free = ~np.isnan(reached[0])
    assert (np.diff(reached[:, free], axis=0) >= 0).all()
    assert 0 < reached[0][free].mean() < reached[-1][free].mean()
    # Done at the smaller radius: nothing is asked at the larger one.
    done = free & (reached[0] == 1)
    assert (results.forwards.values[0, 0, 1][done] == 0).all()


def test_a_randomised_model_reaches_the_target_as_often_as_its_members_do(known):
    members = [known.Constant(1.0, 0.0, 0.0), known.Constant(0.0, 0.0, 1.0), known.Constant(1.0, 0.0, 0.0)]
    mixed = unmask.RandomizedEnsemble(members).eval()
    results = run(
        mixed, torch.rand(4, 1, 2, 2), torch.zeros(4, dtype=torch.long), pgd(steps=2, targeted=True, target=2)
    )
    np.testing.assert_allclose(results.target_reached.values, 1 / 3)
    assert (results.correct == 2 / 3).all()


def test_targets_are_settings_of_the_run_and_of_its_folder(known, tmp_path):
    model, images, labels = known.linear_problem(classes=3)
    attack = pgd(targeted=True, target=1)
    results = run(model, images, labels, attack, out=tmp_path / "run")
    assert '"target": 1' in str(results.settings.item())
    again = run(model, images, labels, attack, out=tmp_path / "run")
    np.testing.assert_array_equal(again.target_reached.values, results.target_reached.values)
    with pytest.raises(UserError, match="another run"):
        run(model, images, labels, pgd(targeted=True, target=2), out=tmp_path / "run")


@pytest.mark.parametrize("batch_size", [1, 7])
def test_targets_go_with_their_samples_in_any_order_and_batch(known, batch_size):
    model, images, labels = known.linear_problem(classes=4)
    targets = (labels + 1 + torch.arange(40) % 2) % 4
    whole = run(model, images, labels, pgd(targeted=True, target=targets), [0.2])
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    other = run(
        model,
        images[order],
        labels[order],
        pgd(targeted=True, target=targets[order]),
        [0.2],
        sample_ids=order,
        batch_size=batch_size,
    )
    for name in ("target_reached", "correct", "prediction", "margin", "forwards"):
        np.testing.assert_array_equal(
            other[name].sel(sample=range(40)).values, whole[name].values, err_msg=name
        )
