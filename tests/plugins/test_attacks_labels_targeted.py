"""Searches by predicted classes alone towards a target: where they start from, and what they find."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unmask
from unmask.data import LabelledImages
from unmask.errors import UserError

SEARCHES = {
    "boundary": {"steps": 1200, "sphere_step": 0.2, "inward_step": 0.1},
    "hop-skip-jump": {"steps": 15, "restarts": 2},
}


def problem(known, classes: int, n: int = 12):
    """A linear model whose last class noise never reaches, and images of every class to start from."""
    generator = torch.Generator().manual_seed(classes)
    weight = torch.randn(classes, 48, generator=generator) / 48**0.5
    bias = -0.5 * weight.sum(1)
    bias[-1] -= 1.6
    model = known.Linear(weight, bias).eval()
    images = 0.5 + 0.05 * torch.randn((n, 3, 4, 4), generator=generator)
    pool = (0.5 + 3.0 * torch.randn((400, 3, 4, 4), generator=generator)).clamp(0, 1)
    corner = (weight[-1] - weight[:-1].mean(0) > 0).float().reshape(1, 3, 4, 4)
    pool = torch.cat([pool, (corner + 0.02 * torch.randn((8, 3, 4, 4), generator=generator)).clamp(0, 1)])
    with torch.no_grad():
        starts = LabelledImages(pool, model(pool).argmax(1), torch.arange(len(pool)), name="pool")
        return model, images, model(images).argmax(1), starts


def distance_to(model, images, labels, target: int, norm: str) -> np.ndarray:
    """How far an affine function of two classes is from the target's side."""
    weight, logits = model.weight.detach().double(), model(images).detach().double()
    slope = weight[target] - weight[labels]
    dual = slope.abs().sum(1) if norm == "linf" else slope.norm(dim=1)
    return ((logits.gather(1, labels[:, None]).squeeze(1) - logits[:, target]) / dual).numpy()


@pytest.mark.parametrize(
    ("name", "norm"), [("boundary", "l2"), ("hop-skip-jump", "l2"), ("hop-skip-jump", "linf")]
)
def test_from_images_of_the_target_its_distance_is_found_where_noise_never_gets(known, name, norm):
    model, images, labels, starts = problem(known, 2)
    images, labels = images[labels == 0], labels[labels == 0]
    assert len(images) >= 4
    attacks = {
        kind: unmask.attack(name, **SEARCHES[name], targeted=True, target=1, tries=20, **more)
        for kind, more in {"noise": {}, "starts": {"starts": starts}}.items()
    }
    found = unmask.evaluate({"m": model}, images, labels, attacks, [0.01, 50.0], norm)
    assert (found.message == "").all()
    distance = found.distance.sel(epsilon=50.0)
    assert np.isinf(distance.sel(attack="noise")).all()
    ratio = distance.sel(attack="starts").values[0] / distance_to(model, images, labels, 1, norm)
    assert ratio.min() >= 1 - 1e-5
    assert ratio.max() <= 1.1
    assert (found.target_reached.sel(attack="starts", epsilon=50.0) == 1).all()
    assert (found.backwards == 0).all()


@pytest.mark.parametrize("name", list(SEARCHES))
def test_the_target_is_what_counts_not_any_class(known, name):
    model, images, labels, starts = problem(known, 4)
    attack = unmask.attack(name, **{**SEARCHES[name], "steps": 8}, targeted=True, target=3, starts=starts)
    found = unmask.evaluate({"m": model}, images, labels, {"a": attack}, [50.0], "l2")
    free = (labels != 3).numpy()
    assert free.all()
    assert (found.prediction.values[0, 0, 0] == 3).all()
    assert (found.target_reached == 1).all()
    truth = distance_to(model, images, labels, 3, "l2")
    assert (found.distance.values[0, 0, 0] >= truth * (1 - 1e-5)).all()


@pytest.mark.parametrize("name", list(SEARCHES))
def test_the_first_image_is_the_samples_own_affair(known, name):
    model, images, labels, starts = problem(known, 4)
    attacks = {
        "aimed": unmask.attack(name, steps=3, targeted=True, target=3, starts=starts),
        "free": unmask.attack(name, steps=3, starts=starts),
    }
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    whole, others = (
        unmask.evaluate(
            {"m": model}, images[rows], labels[rows], attacks, [50.0], "l2",
            sample_ids=rows, batch_size=size, keep_examples=True,
        )
        for rows, size in ((torch.arange(len(images)), None), (order, 5))
    )  # fmt: skip
    again = others.sel(sample=whole.sample)
    for variable in ("adversarial", "distance", "forwards"):
        np.testing.assert_array_equal(again[variable], whole[variable], err_msg=variable)


def test_an_image_of_every_other_class_can_be_drawn_and_none_of_its_own(known):
    from unmask_plugins.attacks.labels_only import first_adversarial

    _, images, labels, _ = problem(known, 4)
    pool = torch.rand((40, 3, 4, 4), generator=torch.Generator().manual_seed(3))
    data = LabelledImages(pool, torch.arange(40) % 4, torch.arange(40), name="pool")
    starts = unmask.attack("boundary", starts=data).attack.starts
    drawn = set()
    for seed in range(40):
        task = known.task_of(known.Constant(0.0, 0.0, 0.0, 1.0).eval(), images, labels, "l2", seed=seed)
        x, found = first_adversarial(task, 1, starts)
        assert found.all()
        place = (x[:, None] == pool[None]).flatten(2).all(2).float().argmax(1)
        assert (place % 4 != labels).all()
        drawn |= set(place.tolist())
    mine = labels.unique()
    reachable = {k for k in range(40) if len(mine) > 1 or k % 4 != int(mine[0])}
    assert drawn == reachable


def test_data_that_do_not_fit_are_refused_before_any_query(known):
    model, images, labels, starts = problem(known, 3)

    def run(data, **aim):
        attack = unmask.attack("boundary", steps=2, starts=data, **aim)
        return unmask.evaluate({"m": model}, images, labels, {"a": attack}, [1.0], "l2")

    ids = torch.arange(2)
    small = LabelledImages(torch.rand(2, 3, 2, 2), ids, ids, name="small")
    with pytest.raises(UserError, match=r"'small' has images of shape \(3, 2, 2\)"):
        run(small)
    with pytest.raises(UserError, match="outside the run's bounds"):
        run(LabelledImages(torch.rand(2, 3, 4, 4) * 9, ids, ids))
    with pytest.raises(UserError, match="no image of class 2, which is a target"):
        run(starts.select((starts.labels != 2).nonzero().squeeze(1)), targeted=True, target=2)
    with pytest.raises(UserError, match="must be a data set"):
        unmask.attack("boundary", starts=3)
    with pytest.raises(UserError, match="digits"):
        unmask.attack("boundary", starts="digitz")


MANIFEST = """
epsilons = [2.0]
norm = "l2"
data = { use = "digits", samples = 6 }
models.m = { use = "small-cnn", width = 4 }
[attacks.a]
use = "hop-skip-jump"
steps = 2
targeted = true
target = 3
starts = { use = "digits", split = "train", samples = 60 }
"""


def test_a_manifest_names_the_data_and_the_result_says_which(tmp_path):
    from unmask.manifest.checking import build_attacks, check_manifest
    from unmask.manifest.reading import parse_manifest

    manifest = parse_manifest(MANIFEST)
    check_manifest(manifest)
    made = build_attacks(manifest)["a"]
    assert made.options["starts"] == {"use": "digits", "split": "train", "samples": 60}
    again = unmask.attack(made.use, **made.options).attack.starts.data
    assert torch.equal(again.ids, made.attack.starts.data.ids)
    assert len(again) == 60
