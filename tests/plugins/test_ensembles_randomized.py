from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from unmask.errors import MisuseError, UserError
from unmask.models.randomized import RandomizedEnsemble
from unmask_plugins.ensembles.randomized import randomized


class Constant(nn.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, images: Tensor) -> Tensor:
        return torch.full((len(images), 2), self.value)


def test_members_answer_as_often_as_their_probabilities_say() -> None:
    model = randomized([Constant(0.0), Constant(1.0)], probabilities=[0.25, 0.75])
    assert isinstance(model, RandomizedEnsemble)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        answers = model(torch.zeros(10_000, 1, 2, 2))[:, 0]
    assert set(answers.tolist()) == {0.0, 1.0}
    assert answers.mean().item() == pytest.approx(0.75, abs=0.02)


def test_probabilities_are_uniform_unless_given() -> None:
    assert randomized([Constant(0.0)] * 4).probabilities.tolist() == [0.25] * 4


def test_what_is_no_ensemble_is_refused() -> None:
    with pytest.raises(UserError, match="at least one member"):
        randomized([])
    with pytest.raises(UserError, match="2 probabilities for 1 members"):
        randomized([Constant(0.0)], [0.5, 0.5])
    with pytest.raises(UserError, match="sum to 1"):
        randomized([Constant(0.0)], [0.5])
    with pytest.raises(MisuseError, match="must be a torch"):
        randomized(["backbone"])  # type: ignore[list-item]
