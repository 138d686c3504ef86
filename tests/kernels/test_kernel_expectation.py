"""Means over draws and members."""

from __future__ import annotations

import math

import pytest
import torch

from unmask_kernels.expectation import expected_slope, weighted_mean


def test_equal_weights_are_the_mean() -> None:
    values = torch.randn((4, 3, 2), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(weighted_mean(values), values.mean(0))
    torch.testing.assert_close(weighted_mean(values, torch.full((4,), 7.0)), values.mean(0))


def test_weights_need_not_sum_to_one_and_may_differ_between_samples() -> None:
    values = torch.tensor([[1.0, 10.0], [4.0, 40.0]])
    assert weighted_mean(values, torch.tensor([2.0, 1.0])).tolist() == [2.0, 20.0]
    assert weighted_mean(values, torch.tensor([[2.0, 0.0], [1.0, 5.0]])).tolist() == [2.0, 40.0]


def test_what_never_answers_does_not_count() -> None:
    values = torch.tensor([[1.0, 2.0], [math.nan, math.inf]])
    assert weighted_mean(values, torch.tensor([0.5, 0.0])).tolist() == [1.0, 2.0]
    assert weighted_mean(values, torch.zeros(2)).isnan().all()


def test_the_expected_slope_is_the_slope_of_the_expectation() -> None:
    """Members w_k . x with probabilities p: the gradient of the expected loss is the mean of the w_k."""
    weights = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    members = torch.randn((3, 1, 2, 2), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x = torch.rand((5, 1, 2, 2), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    values = (members.unsqueeze(1) * x).flatten(2).sum(2)
    gradients = members.unsqueeze(1).expand(3, 5, 1, 2, 2)
    gradient, loss, logits = expected_slope(gradients, values, torch.stack([values, -values], 2), weights)
    mean = 0.5 * members[0] + 0.25 * members[1] + 0.25 * members[2]
    torch.testing.assert_close(gradient, mean.expand(5, 1, 2, 2))
    torch.testing.assert_close(loss, (mean * x).flatten(1).sum(1))
    torch.testing.assert_close(logits, torch.stack([loss, -loss], 1))


def test_precision_is_that_of_the_values() -> None:
    weights = torch.ones(2, dtype=torch.float64)
    assert weighted_mean(torch.zeros(2, 3), weights).dtype == torch.float32


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one draw"):
        weighted_mean(torch.zeros(0, 3))
    with pytest.raises(ValueError, match=r"\[2\] or \[2, 3\], not \[3\]"):
        weighted_mean(torch.zeros(2, 3), torch.ones(3))
