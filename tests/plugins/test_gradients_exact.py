"""Gradient sources where their answer is known: differences on affine functions, and means over draws."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import unmask
from unmask.testing import linear_problem, task_of
from unmask_plugins.gradients import finite_difference


def first_logit(logits, goals):
    return logits[:, 0]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    shape=st.sampled_from([(1, 1, 1), (1, 1, 5), (3, 4, 4), (2, 5, 3), (1, 7, 7)]),
    square=st.integers(1, 4),
    group=st.sampled_from([1, 2, 5, 100]),
    channels=st.sampled_from(["separate", "together"]),
    chunk=st.sampled_from([1, 40, 300, 2**20]),
    seed=st.integers(0, 1000),
)
def test_differences_are_the_gradient_of_affine_functions_in_every_layout(
    shape, square, group, channels, chunk, seed
):
    """Where the slope is the same throughout a block it is found; always its mean over the block is."""
    model, images, labels = linear_problem(n=4, shape=shape, classes=2, seed=seed)
    model, images = model.double(), images.double()
    source = unmask.gradient("finite-difference", square=square, group=group, channels=channels)
    whole, finite_difference._CHUNK = finite_difference._CHUNK, chunk
    try:
        slope = source(task_of(model, images, labels), images, first_logit).gradient
        weight = model.weight[0].detach().reshape(shape).clone()
        with torch.no_grad():
            model.weight[0] = 0.7
        flat = source(task_of(model, images, labels), images, first_logit).gradient
    finally:
        finite_difference._CHUNK = whole
    torch.testing.assert_close(flat, torch.full_like(images, 0.7), rtol=0, atol=1e-5)
    # What the blocks sum up to is left, however many squares are put together.
    torch.testing.assert_close(
        slope.flatten(1).sum(1), weight.sum().expand(len(images)), rtol=1e-5, atol=1e-5
    )
    if group == 1:
        torch.testing.assert_close(
            slope, squares_of(weight, square, channels).expand_as(slope), rtol=0, atol=1e-5
        )


def squares_of(weight, square, channels):
    """The mean of the weight over every square, partial ones at the border included."""
    found = weight.clone()
    apart = range(len(weight)) if channels == "separate" else [slice(None)]
    for channel in apart:
        for top in range(0, weight.shape[1], square):
            for left in range(0, weight.shape[2], square):
                part = (channel, slice(top, top + square), slice(left, left + square))
                found[part] = weight[part].mean()
    return found


class Lottery(nn.Module):
    """Answers every image by a member that it draws for itself, which nobody can enumerate."""

    def __init__(self, members, probabilities):
        super().__init__()
        self.members = nn.ModuleList(members)
        self.ladder = torch.tensor(probabilities).cumsum(0)[:-1]

    def forward(self, images):
        drawn = torch.bucketize(torch.rand(len(images)), self.ladder)
        logits = torch.stack([member(images) for member in self.members], 1)
        return logits.gather(1, drawn[:, None, None].expand(-1, 1, logits.shape[2])).squeeze(1)


@pytest.mark.parametrize(("inner", "count"), [("autograd", 300), ("finite-difference", 60)])
def test_the_mean_over_draws_is_unbiased_against_the_enumerated_truth(inner, count):
    members = [linear_problem(classes=3, seed=seed)[0] for seed in range(3)]
    probabilities = [0.5, 0.3, 0.2]
    _, images, labels = linear_problem(n=1, classes=3)
    images, labels = images.expand(count, -1, -1, -1).contiguous(), labels.expand(count)
    ce = nn.functional.cross_entropy

    def loss(logits, goals):
        return ce(logits, goals, reduction="none")

    source = unmask.gradient("eot", source=inner, samples=20)
    mixed = unmask.RandomizedEnsemble(members, probabilities).eval()
    exact = source(task_of(mixed, images, labels), images, loss)
    drawn = source(task_of(Lottery(members, probabilities).eval(), images, labels), images, loss)
    # The truth by hand.
    x = images[:1].clone().requires_grad_()
    mean = sum(p * ce(member(x), labels[:1]) for p, member in zip(probabilities, members, strict=True))
    (truth,) = torch.autograd.grad(mean, x)
    torch.testing.assert_close(exact.gradient[:1], truth, rtol=1e-3, atol=1e-5)
    # Independent estimates of 20 draws each: their means are within five standard errors of it.
    estimates = drawn.gradient.flatten(1).double()
    error = estimates.std(0) / len(estimates) ** 0.5
    assert (error > 0).all()
    assert ((estimates.mean(0) - truth.flatten().double()).abs() <= 5 * error).all()
    losses = drawn.loss.double()
    assert abs(float(losses.mean() - mean.detach())) <= 5 * float(losses.std()) / len(losses) ** 0.5
