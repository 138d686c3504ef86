from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import unmask
from unmask.errors import MisuseError, UserError
from unmask.models.defended import Defended
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


class InPlace(nn.Module):
    """Reads the images once, and leaves nothing of them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.linear(images.flatten(1).clone())
        images.mul_(0)
        return logits


@pytest.mark.parametrize("name", [*SEVERAL, "mixing"])
def test_a_member_that_works_in_place_spoils_nothing_for_the_others(name: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first = InPlace().eval()
    same = nn.Sequential(nn.Flatten(), first.linear).eval()
    shown = IMAGES.clone()
    found = unmask.ensemble(name, [first, same])(shown)
    torch.testing.assert_close(found, unmask.ensemble(name, [same, same])(IMAGES))
    assert torch.equal(shown, IMAGES)


def test_a_front_end_that_works_in_place_is_gone_round_all_the_same() -> None:
    """The way round reads the images as they came, not what a front end left of them."""

    class Front(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images.sub_(0.5).add_(0.5)

    class Same(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images - 0.5 + 0.5

    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).eval()
    labels = net(IMAGES).argmax(1)
    for at in ("input", "front-end"):
        attack = unmask.attack("pgd", steps=5, gradient={"use": "bypass", "at": at})
        found = [
            unmask.evaluate({"m": Defended(front, net).eval()}, IMAGES, labels, {"bpda": attack}, [0.1])
            for front in (Front(), Same())
        ]
        assert found[0].margin.equals(found[1].margin)


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


class _Shrink(nn.Module):
    """A front end without a gradient: a x + 0.1 in the forward pass."""

    def __init__(self, a: float) -> None:
        super().__init__()
        self.a = a

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (self.a * images + 0.1).detach()


class _Doubled(_Shrink):
    """The same with a surrogate."""

    def surrogate(self, images: torch.Tensor) -> torch.Tensor:
        return 2.0 * images


def _weights() -> list[torch.Tensor]:
    return [
        torch.randn(3, 4, generator=torch.Generator().manual_seed(s), dtype=torch.float64) for s in (1, 2)
    ]


def _by_hand(
    kind: str, logits: list[torch.Tensor], jacobians: list[torch.Tensor], labels: torch.Tensor
) -> torch.Tensor:
    """Of the cross-entropy by the image: members' logits as they are, members' Jacobians as given."""
    truth = nn.functional.one_hot(labels, 3).double()
    if kind == "mean-logits":
        error = torch.stack(logits).mean(0).softmax(1) - truth
        return sum(error @ jacobian / 2 for jacobian in jacobians)  # type: ignore[return-value]
    shares = (0.5, 0.5) if kind == "mean-probabilities" else (0.3, 0.7)
    p = [part.softmax(1) for part in logits]
    mixed = sum(share * part for share, part in zip(shares, p, strict=True))
    own = (mixed * truth).sum(1, keepdim=True)
    total = torch.zeros(len(labels), 4, dtype=torch.float64)
    for share, part, jacobian in zip(shares, p, jacobians, strict=True):
        # d(-log mixed_y) = -share p_y (onehot_y - p) / mixed_y by the member's logits
        mine = (part * truth).sum(1, keepdim=True)
        total += (-share * mine / own * (truth - part)) @ jacobian
    return total


@pytest.mark.parametrize("kind", ["mean-logits", "mean-probabilities", "mixing"])
@pytest.mark.parametrize("at", ["input", "front-end"])
@pytest.mark.parametrize("plain_second", [False, True])
def test_a_bypass_goes_round_the_front_end_of_every_member(
    known, kind: str, at: str, plain_second: bool
) -> None:
    first, second = (known.Linear(weight) for weight in _weights())
    pair: list[nn.Module] = [Defended(_Shrink(0.5), first), Defended(_Doubled(0.8), second)]
    if plain_second:
        pair[1] = second
    model = unmask.ensemble(kind, pair, **({"alpha": 0.7} if kind == "mixing" else {})).eval()
    model.requires_grad_(False)
    images = torch.rand((5, 1, 2, 2), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 0, 1])
    task = known.task_of(model, images, labels)
    slope = unmask.gradient("bypass", at=at)(
        task, images, lambda z, y: nn.functional.cross_entropy(z, y, reduction="none")
    )
    torch.testing.assert_close(slope.logits, model(images))
    scale = 1.0 if plain_second or at == "input" else 2.0
    expected = _by_hand(kind, [part(images) for part in pair], [first.weight, scale * second.weight], labels)
    torch.testing.assert_close(slope.gradient.flatten(1), expected)


def test_a_bypass_reaches_composites_inside_composites_and_ensembles(known) -> None:
    first, second = (known.Linear(weight) for weight in _weights())
    inner = unmask.ensemble("mean-logits", [Defended(_Shrink(0.5), first), second])
    model = (
        unmask.ensemble("mean-logits", [Defended(_Shrink(0.9), inner), first]).eval().requires_grad_(False)
    )
    images = torch.rand((4, 1, 2, 2), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    task = known.task_of(model, images, torch.tensor([0, 1, 2, 0]))
    assert task.target.has_front_end
    slope = unmask.gradient("bypass")(task, images, lambda z, y: z.gather(1, y[:, None]).squeeze(1))
    expected = ((first.weight + second.weight) / 2 + first.weight)[task.labels] / 2
    torch.testing.assert_close(slope.gradient.flatten(1), expected)
    torch.testing.assert_close(slope.logits, model(images))


def test_an_ensemble_of_masked_composites_falls_to_a_bypass(known) -> None:
    model, images, labels = known.linear_problem()
    masked = [Defended(known.ZeroBackward(), model), Defended(known.ZeroBackward(), model)]
    ensemble = unmask.ensemble("mean-probabilities", masked).eval()
    before = {name: tensor.clone() for name, tensor in ensemble.state_dict().items()}
    results = unmask.evaluate(
        {"ensemble": ensemble, "plain": model},
        images,
        labels,
        {"pgd": unmask.attack("pgd", steps=8), "bpda": unmask.attack("pgd", steps=8, gradient="bypass")},
        [0.2],
    )
    rate = results.unmask.robust_accuracy().isel(epsilon=0)
    truth = known.robust_linf(model, images, labels, 0.2).double().mean().item()
    assert rate.sel(model="ensemble", attack="bpda").item() == pytest.approx(truth, abs=0.051)
    assert rate.sel(model="ensemble", attack="pgd").item() > truth + 0.3
    assert bool(results["front_end"].sel(model="ensemble"))
    assert str(results["status"].sel(model="plain", attack="bpda").values[0, 0]) == "7"  # not run
    assert all(torch.equal(tensor, before[name]) for name, tensor in ensemble.state_dict().items())
