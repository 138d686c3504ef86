from __future__ import annotations

from pathlib import Path

import pytest
import torch

from unmask.errors import UserError
from unmask.manifest.location import working_from
from unmask_plugins.models.module import module

SOURCE = """
import torch
from torch import nn

class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
    def forward(self, images):
        return images.flatten(1).sum(1, keepdim=True) * self.scale

class Own(Sum):
    def __init__(self, mean):
        super().__init__()
        self.mean = mean
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path):
    (tmp_path / "nets_of_mine.py").write_text(SOURCE)
    with working_from(tmp_path):
        yield


def test_mean_and_std_are_put_before_the_users_model() -> None:
    model = module("nets_of_mine:Sum", mean=[0.5, 0.25], std=[0.5, 2.0])
    images = torch.rand(3, 2, 1, 1)
    expected = (images[:, 0] - 0.5) / 0.5 + (images[:, 1] - 0.25) / 2
    torch.testing.assert_close(model(images)[:, 0], expected.flatten())
    assert list(model.state_dict()) == ["scale"]


def test_a_factory_that_takes_the_mean_gets_it_itself() -> None:
    model = module("nets_of_mine:Own", mean=[0.5])
    assert model.mean == [0.5]
    assert torch.equal(model(torch.ones(1, 1, 1, 1)), torch.ones(1, 2))


def test_mean_and_std_of_different_lengths_are_refused() -> None:
    with pytest.raises(UserError, match="2 values"):
        module("nets_of_mine:Sum", mean=[0.5, 0.5], std=[1, 1, 1])


def test_a_sequence_of_layers_is_normalised_before_its_first_layer_only():
    import copy
    import pickle

    from unmask_plugins.models.preprocessing import Normalize, put_before

    shared = torch.nn.Tanh()
    plain = torch.nn.Sequential(shared, torch.nn.Flatten(), torch.nn.Linear(12, 5), shared).eval()
    prepared = put_before(copy.deepcopy(plain), Normalize([0.5, 0.1, 0.2], [0.2, 0.3, 0.4], 3))
    images = torch.rand(4, 3, 2, 2)
    mean, std = torch.tensor([0.5, 0.1, 0.2])[:, None, None], torch.tensor([0.2, 0.3, 0.4])[:, None, None]
    expected = plain((images - mean) / std)
    torch.testing.assert_close(prepared(images), expected)
    torch.testing.assert_close(copy.deepcopy(prepared)(images), expected)
    torch.testing.assert_close(pickle.loads(pickle.dumps(prepared))(images), expected)
    assert set(prepared.state_dict()) == set(plain.state_dict())
