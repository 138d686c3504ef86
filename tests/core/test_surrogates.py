from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import unmask
from unmask import FrontEndEntry, hookimpl
from unmask.errors import UserError
from unmask.evaluation.backward import StraightThrough
from unmask.models.defended import Defended
from unmask.models.surrogates import surrogate_of
from unmask.plugins.catalog import Catalog, using


class Rounded(nn.Module):
    """Rounds; for the backward pass it doubles."""

    def forward(self, images: Tensor) -> Tensor:
        return images.round()

    def surrogate(self, images: Tensor) -> Tensor:
        return 2 * images


class Bare(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images.round()


class Cropped(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images[..., 1:]


def tripled(images: Tensor) -> Tensor:
    return 3 * images


def gradient(model: nn.Module, images: Tensor) -> Tensor:
    x = images.clone().requires_grad_()
    (found,) = torch.autograd.grad(StraightThrough(model)(x)[:, 0].sum(), x)
    return found


def test_the_backward_pass_goes_through_the_surrogate_at_the_front_ends_output(known) -> None:
    linear, images, _ = known.linear_problem(4)
    row = linear.weight[0].reshape(images.shape[1:])
    for front_end, factor in ((Rounded(), 2), (Bare(), 1)):
        model = Defended(front_end, linear)
        assert torch.equal(StraightThrough(model)(images), model(images))
        torch.testing.assert_close(gradient(model, images), factor * row.expand_as(images))
    nested = Defended(Rounded(), Defended(Rounded(), linear))
    torch.testing.assert_close(gradient(nested, images), 4 * row.expand_as(images))


def test_an_entry_may_declare_the_surrogate(known) -> None:
    class Plugin:
        @hookimpl
        def unmask_front_ends(self) -> list[FrontEndEntry]:
            return [
                FrontEndEntry("bare", "Rounds.", "None.", Bare, surrogate=tripled),
                FrontEndEntry("text", "Rounds.", "None.", Bare, surrogate="torch.nn.functional:relu"),
                FrontEndEntry("own", "Rounds.", "None.", Rounded, surrogate=tripled),
                FrontEndEntry("none", "Rounds.", "None.", Bare),
            ]

    images = torch.tensor([-1.0, 2.0])
    with using(Catalog.from_plugins({"tests/plugin": Plugin()})):
        built = {name: surrogate_of(unmask.front_end(name)) for name in ("bare", "text", "own", "none")}
    assert built["bare"](images).tolist() == [-3, 6]
    assert built["text"](images).tolist() == [0, 2]
    assert built["own"](images).tolist() == [-2, 4]
    assert built["none"] is None


def test_an_entrys_surrogate_must_be_callable() -> None:
    with pytest.raises(TypeError, match="surrogate"):
        FrontEndEntry("bare", "Rounds.", "None.", Bare, surrogate=3)


def test_a_front_end_that_changes_the_shape_needs_a_surrogate(known) -> None:
    images = torch.rand(2, 1, 1, 4)
    model = Defended(Cropped(), known.Linear(torch.rand(2, 3)))
    with pytest.raises(UserError, match="method `surrogate"):
        StraightThrough(model)(images.requires_grad_())


def test_bypass_follows_the_surrogate_where_autograd_finds_nothing(known) -> None:
    linear, images, labels = known.linear_problem(30)
    images = (images * 4).round() / 4
    labels = linear(images.round()).argmax(1)
    model = Defended(Rounded(), linear).eval()
    bypass = unmask.gradient("bypass", at="front-end")
    attacks = {
        "autograd": unmask.attack("pgd", steps=3),
        "bypass": unmask.attack("pgd", steps=20, gradient=bypass),
    }
    results = unmask.evaluate(model, images, labels, attacks, [0.6])
    accuracy = results.unmask.robust_accuracy().squeeze()
    assert accuracy.sel(attack="bypass") < accuracy.sel(attack="autograd")
    assert (results.gradient_zero.sel(attack="autograd") == 1).any()
    assert (results.gradient_zero.sel(attack="bypass").fillna(0) < 1).all()
