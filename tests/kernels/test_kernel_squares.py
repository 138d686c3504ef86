"""Square Attack's windows: equal to the algorithm as printed, and exactly inside ball and box."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask_kernels.balls import norms
from unmask_kernels.squares import corners, hills, move_mass, paint_squares, paint_windows, stripes

EPSILON = 8 / 255


def test_windows_by_hand() -> None:
    x = torch.zeros(2, 1, 3, 4)
    painted = paint_windows(
        x,
        torch.tensor([1, 0]),
        torch.tensor([1, 3]),
        torch.tensor([2, 2]),
        torch.tensor([1.0, 2.0]).reshape(2, 1, 1, 1),
    )
    assert painted[0, 0].tolist() == [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0]]
    assert painted[1, 0].tolist() == [[0, 0, 0, 2], [0, 0, 0, 2], [0, 0, 0, 0]]
    assert not x.any()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 3), st.integers(0, 10**6))
def test_proposals_are_those_of_the_algorithm(height: int, width: int, channels: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand((3, channels, height, width), generator=generator)
    lower, upper = corners(images, EPSILON, 0.0, 1.0)
    coins = torch.randint(0, 2, (3, channels, width), generator=generator) * 2 - 1
    best = stripes(lower, upper, coins)
    # Algorithm 1, first point: clip(x + eps * stripes).
    torch.testing.assert_close(best, (images + EPSILON * coins.unsqueeze(2)).clamp(0, 1), rtol=0, atol=2e-7)

    size = torch.randint(1, min(height, width) + 1, (3,), generator=generator)
    top = torch.randint(0, height, (3,), generator=generator).minimum(height - size)
    left = torch.randint(0, width, (3,), generator=generator).minimum(width - size)
    signs = torch.randint(0, 2, (3, channels), generator=generator) * 2 - 1
    proposal = paint_squares(best, lower, upper, top, left, size, signs)
    # Algorithm 2: add +-2 eps inside the window, project onto ball and box.
    change = torch.zeros_like(images)
    for i in range(3):
        s, t, w = int(size[i]), int(top[i]), int(left[i])
        change[i, :, t : t + s, w : w + s] = 2 * EPSILON * signs[i].reshape(-1, 1, 1)
    expected = (best + change).clamp(images - EPSILON, images + EPSILON).clamp(0, 1)
    torch.testing.assert_close(proposal, expected, rtol=0, atol=2e-7)
    for points in (best, proposal):
        assert (norms(points.double() - images.double(), "linf") <= EPSILON).all()
        assert points.min() >= 0
        assert points.max() <= 1


def test_corners_are_the_ends_of_ball_and_box() -> None:
    images = torch.tensor([[[[0.0, 0.5, 1.0]]]], dtype=torch.float64)
    lower, upper = corners(images, 0.25, 0.0, 1.0)
    assert lower.flatten().tolist() == [0.0, 0.25, 0.75]
    assert upper.flatten().tolist() == [0.25, 0.75, 1.0]


def test_hills_by_hand() -> None:
    # Of side 3 the upper hill has one row and the lower two; a centre is 1 + 1/4, what touches it 1/4.
    upper = [0.25, 1.25, 0.25]
    lower = [[-0.25, -0.25, -0.25], [-0.25, -1.25, -0.25]]
    for norm, length in (("l1", 4.25), ("l2", (2 * 1.25**2 + 7 * 0.25**2) ** 0.5)):
        found = hills(3, norm) * length
        torch.testing.assert_close(found, torch.tensor([upper, *lower], dtype=torch.float64))
    assert hills(1, "l2").tolist() == [[-1.0]]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([1, 2]), st.integers(3, 9), st.integers(3, 9), st.integers(1, 3), st.integers(0, 10**6)
)
def test_moving_mass_fills_the_ball_and_leaves_the_rest(
    order: int, height: int, width: int, channels: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    delta = torch.randn((4, channels, height, width), generator=generator, dtype=torch.float64)
    norm = {1: "l1", 2: "l2"}[order]
    radius = norms(delta, norm) * (1 + torch.rand(4, generator=generator, dtype=torch.float64))
    signs = torch.randint(0, 2, (4, channels), generator=generator) * 2.0 - 1
    pattern = hills(3, norm) * signs[:, :, None, None].double()
    places = [torch.randint(0, n - 2, (4,), generator=generator) for n in (height, width, height, width)]
    moved = move_mass(delta, pattern, *places, radius, order)
    # Per channel the norm that was there stays, and what the ball still allows is added: the radius is met.
    torch.testing.assert_close(norms(moved, norm), radius, rtol=1e-9, atol=1e-9)
    for i in range(4):
        top, left, from_top, from_left = (int(place[i]) for place in places)
        inside = torch.zeros(height, width, dtype=torch.bool)
        inside[top : top + 3, left : left + 3] = True
        emptied = torch.zeros_like(inside)
        emptied[from_top : from_top + 3, from_left : from_left + 3] = True
        assert (moved[i][:, emptied & ~inside] == 0).all()
        assert torch.equal(moved[i][:, ~emptied & ~inside], delta[i][:, ~emptied & ~inside])
