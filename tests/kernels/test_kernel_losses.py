"""Losses against written-out formulas, and where arithmetic is tempted to fail."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from unmask_kernels import losses

UNTARGETED = [losses.cross_entropy, losses.margin, losses.dlr]
TARGETED = [losses.targeted_cross_entropy, losses.targeted_margin, losses.targeted_dlr]

ROW = [3.0, 1.0, 4.0, -1.0, 5.0]


def logits_and_labels(seed: int, classes: int = 6, n: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn((n, classes), generator=generator, dtype=torch.float64)
    labels = torch.randint(0, classes, (n,), generator=generator)
    return logits, labels, (labels + 1) % classes


@pytest.mark.parametrize(("label", "margin", "dlr"), [(4, -1.0, -1 / 2), (2, 1.0, 1 / 2), (3, 6.0, 3.0)])
def test_margin_and_dlr_by_hand(label: int, margin: float, dlr: float) -> None:
    logits, labels = torch.tensor([ROW], dtype=torch.float64), torch.tensor([label])
    assert losses.margin(logits, labels).item() == margin
    assert losses.dlr(logits, labels).item() == pytest.approx(dlr, rel=1e-11)


def test_targeted_losses_by_hand() -> None:
    logits = torch.tensor([ROW], dtype=torch.float64)
    labels, targets = torch.tensor([4]), torch.tensor([0])
    assert losses.targeted_margin(logits, labels, targets).item() == 3.0 - 5.0
    # Largest 5; third and fourth largest 3 and 1.
    assert losses.targeted_dlr(logits, labels, targets).item() == pytest.approx((3 - 5) / (5 - (3 + 1) / 2))
    expected = 3.0 - math.log(sum(math.exp(z) for z in ROW))
    assert losses.targeted_cross_entropy(logits, labels, targets).item() == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_cross_entropy_is_torchs(seed: int, classes: int) -> None:
    logits, labels, targets = logits_and_labels(seed, classes)
    expected = functional.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(losses.cross_entropy(logits, labels), expected)
    expected = -functional.cross_entropy(logits, targets, reduction="none")
    torch.testing.assert_close(losses.targeted_cross_entropy(logits, labels, targets), expected)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_the_sign_of_the_margin_is_the_verdict(seed: int, classes: int) -> None:
    logits, labels, targets = logits_and_labels(seed, classes)
    wrong = logits.argmax(1) != labels
    assert torch.equal(losses.margin(logits, labels) > 0, wrong)
    assert torch.equal(losses.dlr(logits, labels) > 0, wrong)
    assert torch.equal(losses.targeted_margin(logits, labels, targets) > 0, logits.argmax(1) == targets)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([-1000.0, 1000.0]), st.sampled_from([2.0**10, 2.0**-10]))
def test_shift_and_scale(seed: int, shift: float, scale: float) -> None:
    logits, labels, targets = logits_and_labels(seed)
    for loss in UNTARGETED:
        torch.testing.assert_close(loss(logits + shift, labels), loss(logits, labels), rtol=1e-9, atol=1e-9)
    for targeted in TARGETED:
        torch.testing.assert_close(
            targeted(logits + shift, labels, targets), targeted(logits, labels, targets), rtol=1e-9, atol=1e-9
        )
    torch.testing.assert_close(
        losses.dlr(logits * scale, labels), losses.dlr(logits, labels), rtol=1e-6, atol=0
    )
    torch.testing.assert_close(
        losses.targeted_dlr(logits * scale, labels, targets),
        losses.targeted_dlr(logits, labels, targets),
        rtol=1e-6,
        atol=0,
    )
    torch.testing.assert_close(losses.margin(logits * scale, labels), scale * losses.margin(logits, labels))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [2, 3, 4, 10])
def test_extreme_and_tied_logits_stay_finite(classes: int, dtype: torch.dtype) -> None:
    ramp = torch.arange(classes, dtype=dtype)
    rows = [torch.zeros(classes), ramp * 2**10 + 1000, -ramp * 2**10 - 1000, (ramp > 0) * 1000.0]
    for row in rows:
        for label in range(classes):
            logits = row.to(dtype).expand(1, -1).clone().requires_grad_(True)
            labels, targets = torch.tensor([label]), torch.tensor([(label + 1) % classes])
            for value in (
                *(loss(logits, labels) for loss in UNTARGETED),
                *(loss(logits, labels, targets) for loss in TARGETED),
            ):
                (gradient,) = torch.autograd.grad(value.sum(), logits)
                assert value.isfinite().all()
                assert gradient.isfinite().all()


def test_ties_with_the_label_have_margin_zero() -> None:
    logits = torch.tensor([[2.0, 2.0, 2.0, 2.0]])
    zero = torch.tensor([0])
    assert losses.margin(logits, zero).item() == 0.0
    assert losses.dlr(logits, zero).item() == 0.0
    assert losses.targeted_margin(logits, zero, zero + 1).item() == 0.0
    assert losses.targeted_dlr(logits, zero, zero + 1).item() == 0.0


def test_the_gradient_of_the_margin_is_shared_among_ties() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(losses.margin(logits, torch.tensor([0])).sum(), logits)
    assert gradient.tolist() == [[-1.0, 0.5, 0.5]]


@pytest.mark.parametrize("loss", [losses.margin, losses.dlr])
def test_untargeted_gradients_by_differences(loss: object) -> None:
    logits, labels, _ = logits_and_labels(1)
    assert torch.autograd.gradcheck(lambda z: loss(z, labels), (logits.requires_grad_(True),))  # type: ignore[operator]


def test_few_classes() -> None:
    two = torch.tensor([[1.0, 4.0]], dtype=torch.float64)
    three = torch.tensor([[1.0, 4.0, 2.0]], dtype=torch.float64)
    label, target = torch.tensor([1]), torch.tensor([0])
    assert losses.dlr(two, label).item() == losses.margin(two, label).item() == -3.0
    assert losses.targeted_dlr(two, label, target).item() == -3.0
    assert losses.dlr(three, label).item() == pytest.approx(-2 / 3)
    assert losses.targeted_dlr(three, label, target).item() == pytest.approx(-3 / 3)
    for loss in (losses.margin, losses.dlr):
        with pytest.raises(ValueError, match="2 or more classes"):
            loss(two[:, :1], target)
    for targeted in (losses.targeted_margin, losses.targeted_dlr):
        with pytest.raises(ValueError, match="2 or more classes"):
            targeted(two[0], label, target)
