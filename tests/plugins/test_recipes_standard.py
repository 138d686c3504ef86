from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from unmask.data import LabelledImages
from unmask.errors import MisuseError, UserError
from unmask_plugins.data.digits import digits
from unmask_plugins.models.small_cnn import SmallCNN
from unmask_plugins.recipes.augmentation import varied
from unmask_plugins.recipes.standard import Standard

CPU = torch.device("cpu")


def silent(what: str, done: int, total: int) -> None:
    """A progress callback that shows nothing."""


def few(count: int = 40) -> LabelledImages:
    return digits("train").select(torch.arange(count))


def model(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(SmallCNN(width=4), nn.Dropout(0.2))


def test_digits_are_learnt_in_seconds() -> None:
    network = SmallCNN(width=16)
    Standard(rate=0.01, shift=1, noise=0.15, epochs=20)(
        network, digits("train"), seed=0, device=CPU, progress=silent
    )
    test = digits("test")
    with torch.no_grad():
        accuracy = (network(test.images).argmax(1) == test.labels).double().mean().item()
    assert accuracy > 0.93


def test_one_full_batch_step_of_sgd_is_the_closed_form() -> None:
    # From zero weights the softmax is uniform: the gradient is the mean of (1/classes - onehot) x^T.
    data = LabelledImages(
        images=torch.rand(6, 1, 2, 2, dtype=torch.float64),
        labels=torch.tensor([0, 1, 2, 0, 1, 1]),
        ids=torch.arange(6),
    )
    linear = nn.Linear(4, 3).double()
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    network = nn.Sequential(nn.Flatten(), linear)
    Standard(epochs=1, rate=0.5, batch=6, optimiser="sgd")(network, data, seed=3, device=CPU, progress=silent)
    error = torch.full((6, 3), 1 / 3, dtype=torch.float64) - nn.functional.one_hot(data.labels, 3)
    # Nesterov momentum 0.9 multiplies the first step by 1.9.
    expected = -0.5 * 1.9 * error.T @ data.images.flatten(1) / 6
    torch.testing.assert_close(linear.weight.detach(), expected)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_same_seed_same_weights_whatever_the_global_state(optimiser: Any) -> None:
    recipe = Standard(epochs=2, batch=16, optimiser=optimiser, shift=1, noise=0.1)
    trained = []
    for state, seed in ((1, 7), (2, 7), (1, 8)):
        network = model()
        torch.manual_seed(state)
        recipe(network, few(), seed=seed, device=CPU, progress=silent)
        trained.append(network.state_dict())
    assert all(torch.equal(trained[0][name], trained[1][name]) for name in trained[0])
    assert any(not torch.equal(trained[0][name], trained[2][name]) for name in trained[0])


def test_global_random_states_are_as_before() -> None:
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist())
    Standard(epochs=1, shift=1, noise=0.1)(model(), few(), seed=0, device=CPU, progress=silent)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]


def test_the_model_comes_back_as_a_guest_should() -> None:
    network = model()
    frozen = network[0].head.weight
    frozen.requires_grad_(False)
    kept = frozen.detach().clone()
    with torch.no_grad():
        Standard(epochs=1)(network, few(), seed=0, device=CPU, progress=silent)
    assert not any(part.training for part in network.modules())
    assert torch.equal(frozen, kept)
    assert [name for name, p in network.named_parameters() if not p.requires_grad] == ["0.head.weight"]
    assert all(parameter.grad is None for parameter in network.parameters())


def test_a_failure_in_the_middle_leaves_no_trace_either() -> None:
    network = model()
    state = torch.get_rng_state()

    def interrupt(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Standard(epochs=1)(network, few(), seed=0, device=CPU, progress=interrupt)
    assert not any(part.training for part in network.modules())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in network.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_progress_counts_every_update() -> None:
    seen = []
    Standard(epochs=2, batch=16)(
        model(), few(40), seed=0, device=CPU, progress=lambda *call: seen.append(call)
    )
    assert seen == [("training", done, 6) for done in range(1, 7)]


def test_shifts_move_whole_images_over_the_background() -> None:
    images = torch.zeros(200, 2, 5, 5)
    images[:, 0, 2, 2], images[:, 1, 2, 2] = 1.0, 2.0
    moved = varied(images, shift=1, background=-1.0, generator=torch.Generator().manual_seed(0))
    places = (moved[:, 0] == 1).flatten(1).long().argmax(1)
    assert set(places.tolist()) == {6, 7, 8, 11, 12, 13, 16, 17, 18}
    assert torch.equal(places, (moved[:, 1] == 2).flatten(1).long().argmax(1))
    corner = moved[places == 6][0, 0]
    assert corner[4].tolist() == [-1.0] * 5
    assert corner[:, 4].tolist() == [-1.0] * 5


def test_divergence_is_said() -> None:
    broken = few()
    broken.images[3, 0, 4, 4] = float("nan")
    with pytest.raises(UserError, match="training diverged: the loss is nan"):
        Standard(epochs=1)(model(), broken, seed=0, device=CPU, progress=silent)


def test_nothing_to_train_is_refused() -> None:
    with pytest.raises(UserError, match="nothing to train"):
        Standard()(copy.deepcopy(model()).requires_grad_(False), few(), seed=0, device=CPU, progress=silent)
    with pytest.raises(UserError, match="no images"):
        Standard()(model(), few(0), seed=0, device=CPU, progress=silent)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epochs": 0}, UserError, "epochs: 0 must be at least 1"),
        ({"epochs": 1.5}, MisuseError, "epochs: 1.5 must be a whole number"),
        ({"rate": -1.0}, UserError, "rate: -1.0 must be a positive number"),
        ({"rate": float("nan")}, UserError, "rate: nan must be a positive number"),
        ({"batch": True}, MisuseError, "batch: True must be a whole number"),
        ({"noise": 2.0}, UserError, "noise: 2.0 must lie in"),
        ({"shift": -1}, UserError, "shift: -1 must not be negative"),
        ({"optimiser": "adm"}, UserError, "optimiser: 'adm' is no optimiser. Did you mean 'adam'"),
    ],
)
def test_impossible_options_are_refused(
    options: dict[str, Any], error: type[UserError], message: str
) -> None:
    with pytest.raises(error, match=message):
        Standard(**options)
