from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import unmask
from unmask.errors import MisuseError, UserError
from unmask_plugins.ensembles.keyed_transform import KeyedTransformation

SEVERAL = ("mean-logits", "mean-probabilities", "majority", "keyed-transform")
SINGLE = ("dropout-at-test", "noise-layers", "random-normalization", "random-precision")


def pair(known, *rows: tuple[float, ...]) -> list[nn.Module]:
    return [known.Constant(*row).eval() for row in rows]


IMAGES = torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(0))


def test_mean_logits(known) -> None:
    model = unmask.ensemble("mean-logits", pair(known, (0, 3, 0), (4, 0, 0)))
    assert model(IMAGES).tolist() == [[2, 1.5, 0]] * 2


def test_mean_probabilities_are_the_softmax_of_the_logits(known) -> None:
    rows = (0.0, 3.0, -2.0), (400.0, 0.0, 0.0)
    model = unmask.ensemble("mean-probabilities", pair(known, *rows))
    expected = torch.tensor(rows).softmax(1).mean(0)
    torch.testing.assert_close(model(IMAGES).softmax(1), expected.expand(2, -1))


def test_majority_counts_votes(known) -> None:
    members = pair(known, (0.0, 9, 0), (5.0, 4, 0), (0, 0.1, 0), (0.0, 0, 1))
    model = unmask.ensemble("majority", members)
    assert model(IMAGES).tolist() == [[1, 2, 1]] * 2
    assert not model(IMAGES.clone().requires_grad_()).requires_grad
    members[0].logits.fill_(torch.nan)
    assert not model(IMAGES).isfinite().any()


def test_mixing_mixes_probabilities(known) -> None:
    accurate, robust = (5.0, 0.0, 0.0), (0.0, 1.0, 0.5)
    for alpha in (0.0, 0.3, 0.5, 1.0):
        model = unmask.ensemble("mixing", pair(known, accurate, robust), alpha=alpha)
        expected = (1 - alpha) * torch.tensor(accurate).softmax(0) + alpha * torch.tensor(robust).softmax(0)
        torch.testing.assert_close(model(IMAGES).softmax(1), expected.expand(2, -1))


def test_mixing_is_differentiable_at_the_ends(known) -> None:
    linear, images, _ = known.linear_problem(4)
    for alpha in (0.0, 0.5, 1.0):
        x = images.clone().requires_grad_()
        unmask.ensemble("mixing", [linear, linear], alpha=alpha)(x).sum().backward()
        assert x.grad.isfinite().all()


@pytest.mark.parametrize(("options", "where"), [({"alpha": -0.1}, "alpha"), ({"alpha": 1.1}, "alpha")])
def test_mixing_refuses(known, options, where: str) -> None:
    with pytest.raises(UserError, match=where):
        unmask.ensemble("mixing", pair(known, (0, 1), (1, 0)), **options)
    with pytest.raises(UserError, match="exactly 2"):
        unmask.ensemble("mixing", pair(known, (0, 1)))


@pytest.mark.parametrize("name", SEVERAL)
def test_members_are_checked(name: str) -> None:
    with pytest.raises(UserError, match="at least one member"):
        unmask.ensemble(name, [])
    with pytest.raises(MisuseError, match=r"members\[1\]"):
        unmask.ensemble(name, [nn.Identity(), 3])


@pytest.mark.parametrize("name", SINGLE)
def test_a_self_ensemble_takes_exactly_one_member(name: str, known) -> None:
    with pytest.raises(UserError, match="exactly 1"):
        unmask.ensemble(name, pair(known, (0, 1), (1, 0)))
    with pytest.raises(UserError, match="exactly 1"):
        unmask.ensemble(name, [])


def test_votes_leave_an_attack_by_gradients_nothing_to_follow(known) -> None:
    linear, images, labels = known.linear_problem(12)
    model = unmask.ensemble("majority", [linear]).eval()
    results = unmask.evaluate(
        {"votes": model, "plain": linear}, images, labels, {"pgd": unmask.attack("pgd", steps=5)}, [0.1]
    )
    assert (results.gradient_zero.sel(model="votes") == 1).any()
    accuracy = results.unmask.robust_accuracy().squeeze()
    assert accuracy.sel(model="plain") < accuracy.sel(model="votes")


@pytest.mark.parametrize("transform", ["permutation", "sign-flip"])
def test_a_key_fixes_its_transformation(transform: str) -> None:
    images = torch.rand(3, 2, 6, 8)
    first, again, other = (KeyedTransformation(k, transform)(images) for k in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert not torch.allclose(first, images)
    # Both are isometries: the distances an attack is measured by stay what they are.
    torch.testing.assert_close(first.square().sum((1, 2, 3)), images.square().sum((1, 2, 3)))
    torch.testing.assert_close(KeyedTransformation(5, transform)(images[1:2]), first[1:2])
    state = torch.get_rng_state()
    KeyedTransformation(5, transform)(images)
    assert torch.equal(state, torch.get_rng_state())


def test_a_permutation_moves_only_its_share_of_the_pixels() -> None:
    images = torch.arange(64.0).reshape(1, 1, 8, 8)
    shown = KeyedTransformation(1, "permutation", share=0.25)(images)
    assert sorted(shown.flatten().tolist()) == list(range(64))
    assert 0 < int((shown != images).sum()) <= 16


def test_flipped_signs_are_their_own_inverse_and_spare_the_low_frequencies() -> None:
    images = torch.rand(2, 1, 8, 8)
    transform = KeyedTransformation(1, "sign-flip", share=0.5)
    torch.testing.assert_close(transform(transform(images)), images)
    constant = torch.full((1, 1, 8, 8), 0.4)
    torch.testing.assert_close(transform(constant), constant)


def test_keyed_members_see_their_own_transformation(known) -> None:
    linear, images, _ = known.linear_problem(4)
    model = unmask.ensemble("keyed-transform", [linear, linear], key=7)
    answers: list[Tensor] = [linear(KeyedTransformation(7 + i)(images)) for i in range(2)]
    torch.testing.assert_close(model(images).softmax(1), torch.stack(answers).softmax(2).mean(0))
    single = unmask.ensemble("keyed-transform", [linear], key=7)
    torch.testing.assert_close(single(images), answers[0])


@pytest.mark.parametrize("options", [{"key": -1}, {"share": 0.0}, {"transform": "rotation"}])
def test_keyed_options_out_of_range_are_refused(known, options) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        unmask.ensemble("keyed-transform", pair(known, (0, 1)), **options)
