"""What a failed cell kept from the cells after it is made up for when it is repaired."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unmask
from unmask.dimensions import Status

RADII = [0.05, 0.1, 0.2, 0.3]


def failing_at(radii, folder):
    """One random corner of the ball; at some radii it raises, until `mended` lies in the folder."""

    def attack(target, images, labels, budget, random):
        if budget.epsilon in radii and not (folder / "mended").exists():
            raise RuntimeError("not today")
        moved = images + budget.epsilon * random.signs(tuple(images.shape[1:]))
        moved = moved.clamp(0, 1)
        target(moved)
        return moved

    return attack


def evaluated(attack, out):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)).eval()
    images = torch.rand(40, 1, 4, 4, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        labels = model(images).argmax(1)
    return unmask.evaluate({"m": model}, images, labels, {"corner": attack}, RADII, out=out)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    return evaluated(failing_at([], Path("/nowhere")), tmp_path_factory.mktemp("unbroken") / "run")


@settings(max_examples=12, deadline=None)
@given(failing=st.sets(st.sampled_from(RADII), min_size=1))
def test_a_repaired_run_equals_an_unbroken_one(failing, unbroken, tmp_path_factory):
    folder = tmp_path_factory.mktemp("repaired")
    attack = failing_at(frozenset(failing), folder)
    first = evaluated(attack, folder / "run")
    assert set(first.epsilon.values[(first.status == Status.FAILED).any("sample").values.ravel()]) == failing
    # The same failures again: what was finished beside them is not computed again.
    again = evaluated(attack, folder / "run")
    assert again.correct.identical(first.correct)
    assert (again.seconds.values == first.seconds.values)[~first.correct.isnull().any("sample").values].all()
    (folder / "mended").touch()
    mended = evaluated(attack, folder / "run")
    for name in set(unbroken.variables) - {"seconds"}:
        assert mended[name].identical(unbroken[name]), name
