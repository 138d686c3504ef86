from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import group_norm

import unmask
from unmask.errors import UserError
from unmask.models.randomized import RandomizedEnsemble
from unmask_plugins.ensembles.random_precision import quantized

SELF = ("dropout-at-test", "noise-layers", "random-normalization")
OPTIONS = {"dropout-at-test": {"rate": 0.5}}


def network(dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()]
    layers += [nn.Dropout(dropout)] if dropout else []
    model = nn.Sequential(*layers, nn.Linear(64, 3))
    model[1].running_mean.uniform_(-0.3, 0.3)
    return model.eval()


IMAGES = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", SELF)
def test_answers_are_drawn_for_every_row_and_the_model_is_untouched(name: str) -> None:
    model = network()
    before, clean = copy.deepcopy(model.state_dict()), model(IMAGES)
    drawn = unmask.ensemble(name, [model], **OPTIONS.get(name, {}))
    assert not any(module.training for module in drawn.modules() if module is not drawn)
    copies = IMAGES[:1].expand(64, -1, -1, -1)
    torch.manual_seed(0)
    answers = drawn(copies)
    assert len(answers.unique(dim=0)) > 2
    torch.manual_seed(0)
    assert torch.equal(drawn(copies), answers)
    assert torch.equal(model(IMAGES), clean)
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in before.items())


@pytest.mark.parametrize("name", SELF)
def test_several_draws_average_probabilities(name: str) -> None:
    options = OPTIONS.get(name, {})
    torch.manual_seed(3)
    answers = [unmask.ensemble(name, [network()], **options) for _ in range(2)]
    once, twice = answers[0], unmask.ensemble(name, [network()], draws=2, **options)
    torch.manual_seed(5)
    expected = torch.stack([once(IMAGES).softmax(1) for _ in range(2)]).mean(0)
    torch.manual_seed(5)
    torch.testing.assert_close(twice(IMAGES).softmax(1), expected)


@pytest.mark.parametrize("name", SELF)
def test_they_are_evaluated_as_drawn_models(name: str) -> None:
    model = network()
    labels = model(IMAGES).argmax(1)
    drawn = unmask.ensemble(name, [model], **OPTIONS.get(name, {})).eval()
    results = unmask.evaluate(
        {"drawn": drawn}, IMAGES, labels, {"pgd": unmask.attack("pgd", steps=2)}, [0.05], draws=8
    )
    assert results.randomness.item() == "drawn"
    assert (results.correct <= results.clean_correct).all()


def test_the_models_own_dropout_layers_drop_at_their_own_rate() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.25)).eval()
    torch.manual_seed(0)
    shown = unmask.ensemble("dropout-at-test", [model])(torch.ones(200, 1, 10, 10))
    assert shown.unique().tolist() == pytest.approx([0, 4 / 3])
    assert (shown == 0).float().mean().item() == pytest.approx(0.25, abs=0.02)
    more = unmask.ensemble("dropout-at-test", [model], rate=0.5)(torch.ones(200, 1, 10, 10))
    assert (more == 0).float().mean().item() == pytest.approx(0.5, abs=0.02)


def test_dropout_needs_a_place_and_a_rate() -> None:
    with pytest.raises(UserError, match="Give a `rate`"):
        unmask.ensemble("dropout-at-test", [network()])
    with pytest.raises(UserError, match="neither dropout nor linear"):
        unmask.ensemble("dropout-at-test", [nn.Flatten()], rate=0.5)
    with pytest.raises(UserError, match="rate"):
        unmask.ensemble("dropout-at-test", [network()], rate=1.0)
    assert unmask.ensemble("dropout-at-test", [network(0.2)])(IMAGES).shape == (6, 3)


def test_noise_has_one_deviation_before_the_first_convolution_and_another_before_the_rest() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(1, 1, 1, bias=False), nn.Conv2d(1, 1, 1, bias=False)
            for layer in (self.a, self.b):
                nn.init.ones_(layer.weight)

        def forward(self, images: Tensor) -> Tensor:
            return self.b(self.a(images) * 0 + self.a(images)).flatten(1)

    images = torch.zeros(100, 1, 20, 20)
    torch.manual_seed(0)
    outer = unmask.ensemble("noise-layers", [Two()], first=0.3, inner=0.0)(images)
    inner = unmask.ensemble("noise-layers", [Two()], first=0.0, inner=0.4)(images)
    assert outer.std().item() == pytest.approx(0.3, rel=0.03)
    assert inner.std().item() == pytest.approx(0.4, rel=0.03)
    silent = unmask.ensemble("noise-layers", [network()], first=0.0, inner=0.0)
    torch.testing.assert_close(silent(IMAGES), network()(IMAGES))
    with pytest.raises(UserError, match="no convolution"):
        unmask.ensemble("noise-layers", [nn.Linear(2, 2)])


def test_normalisation_is_its_own_or_one_of_the_groups() -> None:
    layer = nn.BatchNorm2d(4).eval()
    nn.init.uniform_(layer.weight)
    layer.running_mean.uniform_()
    features = torch.rand(1, 4, 5, 5)
    possible = [
        layer(features),
        *(group_norm(features, g, layer.weight, layer.bias, layer.eps) for g in (1, 4)),
    ]
    drawn = unmask.ensemble("random-normalization", [nn.Sequential(layer)], groups=[1, 3, 4])
    torch.manual_seed(0)
    counts = [0, 0, 0]
    for row in drawn(features.expand(300, -1, -1, -1)).split(1):
        (kind,) = [k for k, kind in enumerate(possible) if torch.allclose(row, kind, atol=1e-5)]
        counts[kind] += 1
    assert min(counts) > 70
    rare = unmask.ensemble("random-normalization", [nn.Sequential(layer)], groups=[1], share=0.1)
    rows = rare(features.expand(300, -1, -1, -1))
    own = sum(torch.allclose(row, possible[0], atol=1e-5) for row in rows.split(1))
    assert 265 < own < 300


def test_normalisation_needs_layers_that_fit() -> None:
    with pytest.raises(UserError, match="no BatchNorm2d layer\\."):
        unmask.ensemble("random-normalization", [nn.Flatten()])
    with pytest.raises(UserError, match="divides"):
        unmask.ensemble("random-normalization", [network()], groups=[3])
    with pytest.raises(UserError, match="groups"):
        unmask.ensemble("random-normalization", [network()], groups=[])


def test_random_precision_is_enumerated_and_fine_precision_is_the_model() -> None:
    model = network()
    drawn = unmask.ensemble("random-precision", [model], bits=[2, 8, 16])
    assert isinstance(drawn, RandomizedEnsemble)
    errors = [(member(IMAGES) - model(IMAGES)).abs().max().item() for member in drawn.members]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3
    labels = model(IMAGES).argmax(1)
    results = unmask.evaluate(
        {"drawn": drawn.eval()}, IMAGES, labels, {"pgd": unmask.attack("pgd", steps=2)}, [0.05]
    )
    assert results.randomness.item() == "enumerated"


def test_quantised_values_lie_on_the_grid_and_gradients_pass() -> None:
    layer = nn.Linear(3, 2, bias=False)
    layer.weight.data = torch.tensor([[1.0, -0.4, 0.2], [0.0, 0.6, -1.0]])
    two = quantized(layer, 2)
    assert two.weight.tolist() == [[1, 0, 0], [0, 1, -1]]
    x = torch.tensor([[0.0, 0.4, 0.9]], requires_grad=True)
    y = two(x)  # inputs on {0, 0.3, 0.6, 0.9}
    torch.testing.assert_close(y, torch.tensor([[0.0, 0.3 - 0.9]]))
    y[0, 1].backward()
    assert x.grad.tolist() == [[0, 1, -1]]
    assert quantized(layer, 8)(torch.zeros(1, 3)).tolist() == [[0, 0]]


@pytest.mark.parametrize("bits", [[], [1], [17], [4, 4]])
def test_precisions_out_of_range_are_refused(bits: list[int]) -> None:
    with pytest.raises(UserError, match="bits"):
        unmask.ensemble("random-precision", [network()], bits=bits)
