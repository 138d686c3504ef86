"""Projections are inside without tolerance, nearest where promised, and idempotent; directions and norms."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from unmask_kernels.balls import NORMS, norms, project, steepest

SHAPES = [(1, 1, 1), (3, 1, 1), (1, 5, 3), (3, 4, 7), (2, 16, 16)]
BOXES = [(0.0, 1.0), (-2.117903930131004, 2.6399999), (0.1, 0.3), (0.0, 255.0)]
ORDERS = {"linf": np.inf, "l2": 2, "l1": 1, "l0": 0}


def size(points: Tensor, centres: Tensor, norm: str) -> Any:
    """As an independent judge measures it: NumPy, float64, on the stored numbers."""
    return np.linalg.norm(
        points.double().numpy().reshape(len(points), -1) - centres.double().numpy().reshape(len(points), -1),
        ord=ORDERS[norm],
        axis=1,
    )


def clean_images(
    n: int, shape: tuple[int, ...], low: float, high: float, dtype: torch.dtype, seed: int
) -> Tensor:
    """Images inside the box as stored, many of them at its very border."""
    generator = torch.Generator().manual_seed(seed)
    x = (low + (high - low) * torch.rand((n, *shape), generator=generator, dtype=torch.float64)).to(dtype)
    ends = torch.tensor([low, high], dtype=torch.float64).to(dtype)
    corner = torch.rand(x.shape, generator=generator)
    x = torch.where(corner < 0.15, ends[0], torch.where(corner > 0.85, ends[1], x))
    middle = torch.tensor((low + high) / 2, dtype=dtype)
    for _ in range(2):
        wrong = (x.double() < low) | (x.double() > high)
        x = torch.where(wrong, torch.nextafter(x, middle), x)
    return x


@settings(max_examples=250, deadline=None)
@given(
    norm=st.sampled_from(NORMS),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    shape=st.sampled_from(SHAPES),
    box=st.sampled_from(BOXES),
    epsilon=st.one_of(
        st.sampled_from([0.0, 8 / 255, 4 / 255, 0.1, 0.2, 0.3, 0.5, 1.0, 1e-30, 1e-9, 1e30, 1e300, math.inf]),
        st.floats(1e-12, 100.0),
    ),
    spread=st.sampled_from([0.0, 1e-12, 1e-8, 1e-3, 0.05, 1.0, 1e6, 1e30]),
    seed=st.integers(0, 10**6),
)
def test_the_stored_result_is_inside_without_tolerance(
    norm: str,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    box: tuple[float, float],
    epsilon: float,
    spread: float,
    seed: int,
) -> None:
    low, high = box
    centres = clean_images(3, shape, low, high, dtype, seed)
    noise = torch.randn(centres.shape, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    points = (centres.double() + spread * noise).to(dtype)
    before = points.clone(), centres.clone()

    projected = project(points, centres, norm, epsilon, low, high)

    assert projected.dtype == dtype
    assert projected.shape == points.shape
    assert (size(projected, centres, norm) <= epsilon).all()
    assert (norms(projected.double() - centres.double(), norm) <= epsilon).all()
    assert (projected.double() >= low).all()
    assert (projected.double() <= high).all()
    assert torch.equal(project(projected, centres, norm, epsilon, low, high), projected)
    # The centre never moves, and no coordinate is pushed beyond its point or across its centre.
    assert torch.equal(project(centres, centres, norm, epsilon, low, high), centres)
    assert ((projected - centres).abs() <= (points - centres).abs()).all()
    assert ((projected - centres) * (points - centres) >= 0).all()
    assert torch.equal(points, before[0])
    assert torch.equal(centres, before[1])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([8 / 255, 0.1, 0.3, 1e-4]), st.integers(0, 10**6))
def test_linf_gives_the_nearest_representable_point(epsilon: float, seed: int) -> None:
    centres = clean_images(2, (1, 5, 5), 0.0, 1.0, torch.float32, seed)
    points = centres + torch.randn(centres.shape, generator=torch.Generator().manual_seed(seed))
    projected = project(points, centres, "linf", epsilon, 0.0, 1.0)
    outwards = torch.nextafter(projected, points)
    moved = projected != points
    leaves = (
        ((outwards.double() - centres.double()).abs() > epsilon)
        | (outwards.double() < 0.0)
        | (outwards.double() > 1.0)
    )
    assert moved.any()
    assert leaves[moved].all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_inside_come_back_bit_for_bit(dtype: torch.dtype) -> None:
    centres = torch.tensor([[[[0.5, 0.5, 0.25]]]], dtype=dtype)
    points = torch.tensor([[[[1e-20, 0.5 + 1e-7, 0.25]]]], dtype=dtype)
    for norm in NORMS:
        assert torch.equal(project(points, centres, norm, 2.0 if norm == "l0" else 0.6, 0.0, 1.0), points)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_l2_is_radial(dtype: torch.dtype) -> None:
    centres = torch.full((2, 1, 2, 3), 0.5, dtype=dtype)
    way = torch.randn(centres.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    projected = project((centres + 3 * way).to(dtype), centres, "l2", 0.25, 0.0, 1.0)
    expected = 0.5 + 0.25 * way / way.flatten(1).norm(dim=1).reshape(-1, 1, 1, 1)
    torch.testing.assert_close(
        projected.double(), expected, rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-10
    )


def l1_by_bisection(difference: Any, radius: float) -> Any:
    """Euclidean projection onto the l1 ball: the soft threshold whose result has the radius as its norm."""
    low, high = 0.0, float(np.abs(difference).max())
    for _ in range(200):
        middle = (low + high) / 2
        if np.maximum(np.abs(difference) - middle, 0).sum() > radius:
            low = middle
        else:
            high = middle
    return np.sign(difference) * np.maximum(np.abs(difference) - high, 0)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.floats(0.01, 5.0), st.integers(0, 10**6))
def test_l1_is_the_euclidean_projection(length: int, epsilon: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    difference = torch.randn((1, 1, 1, length), generator=generator, dtype=torch.float64).round(decimals=1)
    centres = torch.zeros_like(difference)
    projected = project(difference, centres, "l1", epsilon, -100.0, 100.0)
    expected = difference if difference.abs().sum() <= epsilon else None
    if expected is None:
        expected = torch.from_numpy(l1_by_bisection(difference.numpy(), epsilon))
    torch.testing.assert_close(projected, expected, rtol=0, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(0, 6), st.integers(0, 10**6))
def test_l0_gives_the_nearest_point_of_ball_and_box(length: int, epsilon: int, seed: int) -> None:
    centres = clean_images(1, (1, 1, length), 0.0, 1.0, torch.float64, seed)
    noise = torch.randn(centres.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    points = centres + 2 * noise
    projected = project(points, centres, "l0", float(epsilon), 0.0, 1.0)
    nearest = math.inf
    for chosen in itertools.combinations(range(length), min(epsilon, length)):
        other = centres.clone()
        other[..., list(chosen)] = points[..., list(chosen)].clamp(0, 1)
        nearest = min(nearest, float((points - other).norm()))
    assert float((points - projected).norm()) == pytest.approx(nearest, abs=1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_nan_stays_and_infinity_is_far(norm: str) -> None:
    centres = torch.full((3, 1, 1, 2), 0.5)
    points = torch.tensor([[math.nan, 0.5], [math.inf, 0.5], [-math.inf, 0.5]]).reshape(3, 1, 1, 2)
    projected = project(points, centres, norm, 1.0 if norm == "l0" else 0.25, 0.0, 1.0)
    assert projected[0, 0, 0, 0].isnan()
    assert projected[0, 0, 0, 1] == 0.5
    way = 0.5 if norm == "l0" else 0.25
    expected = torch.tensor([[0.5 + way, 0.5], [0.5 - way, 0.5]]).reshape(2, 1, 1, 2)
    torch.testing.assert_close(projected[1:], expected, rtol=0, atol=1e-6)
    assert project(points, centres, norm, math.inf, 0.0, 1.0)[1:].flatten().tolist() == [1.0, 0.5, 0.0, 0.5]


def test_large_batches_are_treated_row_by_row() -> None:
    centres = torch.rand((600, 3, 16, 16), generator=torch.Generator().manual_seed(0))
    points = centres + torch.randn(centres.shape, generator=torch.Generator().manual_seed(1))
    for norm in NORMS:
        whole = project(points, centres, norm, 0.3, 0.0, 1.0)
        assert torch.equal(whole[590:], project(points[590:], centres[590:], norm, 0.3, 0.0, 1.0))
        assert (size(whole, centres, norm) <= 0.3).all()


def test_gradients_are_neither_needed_nor_kept() -> None:
    points = torch.ones((1, 1, 1, 1), requires_grad=True)
    assert not project(points, torch.zeros(1, 1, 1, 1), "l2", 0.5, 0.0, 1.0).requires_grad


def test_bad_arguments_are_refused() -> None:
    x = torch.zeros(1, 1, 1, 1)
    with pytest.raises(ValueError, match=r"'l3'; known norms: linf, l2, l1, l0"):
        project(x, x, "l3", 0.1, 0.0, 1.0)
    for epsilon in (-0.1, math.nan):
        with pytest.raises(ValueError, match="epsilon must be at least 0"):
            project(x, x, "linf", epsilon, 0.0, 1.0)
    with pytest.raises(ValueError, match="empty"):
        project(x, x, "linf", 0.1, 1.0, 0.0)
    with pytest.raises(ValueError, match="differ in shape"):
        project(x, x[:0], "linf", 0.1, 0.0, 1.0)
    with pytest.raises(TypeError, match=r"torch.float32.*torch.float64"):
        project(x, x.double(), "linf", 0.1, 0.0, 1.0)
    with pytest.raises(TypeError, match="float16"):
        project(x.half(), x.half(), "linf", 0.1, 0.0, 1.0)
    for function in (steepest, norms):
        with pytest.raises(ValueError, match="known norms"):
            function(x, "L2")


@settings(max_examples=60, deadline=None)
@given(
    norm=st.sampled_from(NORMS),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    scale=st.sampled_from([1e-300, 1e-44, 1e-20, 1.0, 1e20, 1e38, 1e300]),
    seed=st.integers(0, 10**6),
)
def test_steepest_reaches_the_dual_norm(norm: str, dtype: torch.dtype, scale: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    gradient = (torch.randn((2, 3, 4, 5), generator=generator, dtype=torch.float64) * scale).to(dtype)
    gradient = gradient.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)
    step = steepest(gradient, norm)
    assert step.dtype == dtype
    assert step.isfinite().all()
    flat = gradient.double().flatten(1)
    largest = flat.abs().amax(1, keepdim=True)
    if (largest == 0).any():
        assert not step[(largest == 0).flatten()].any()
        return
    flat = flat / largest
    if norm == "l0":
        # One coordinate, of largest slope.
        norm = "l1"
    dual = {"linf": flat.abs().sum(1), "l2": flat.norm(dim=1), "l1": flat.abs().amax(1)}[norm]
    torch.testing.assert_close((flat * step.double().flatten(1)).sum(1), dual, rtol=1e-6, atol=0)
    torch.testing.assert_close(norms(step, norm), torch.ones(2, dtype=torch.float64), rtol=1e-6, atol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_no_gradient_no_step(norm: str) -> None:
    assert torch.equal(steepest(torch.zeros(2, 1, 2, 2), norm), torch.zeros(2, 1, 2, 2))


def test_steepest_of_odd_gradients() -> None:
    tied = torch.tensor([[[[1.0, -3.0, 3.0]]]])
    assert steepest(tied, "l1").flatten().tolist() == [0.0, -1.0, 0.0]
    odd = torch.tensor([[[[math.nan, -math.inf, 1.0]]]])
    assert steepest(odd, "linf").flatten().tolist() == [0.0, -1.0, 1.0]
    assert steepest(odd, "l2").flatten().tolist() == [0.0, -1.0, 0.0]
    assert steepest(odd, "l1").flatten().tolist() == [0.0, -1.0, 0.0]


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(NORMS), st.sampled_from(SHAPES), st.integers(0, 10**6))
def test_norms_equal_numpy(norm: str, shape: tuple[int, ...], seed: int) -> None:
    differences = torch.randn((4, *shape), generator=torch.Generator().manual_seed(seed))
    measured = norms(differences, norm)
    assert measured.dtype == torch.float64
    np.testing.assert_allclose(
        measured.numpy(), size(differences, torch.zeros_like(differences), norm), rtol=1e-13
    )


def test_norms_of_extremes() -> None:
    differences = torch.tensor(
        [[0.0, 0.0], [3e-200, 4e-200], [3e200, 4e200], [math.inf, 1.0], [math.nan, 1.0]], dtype=torch.float64
    )
    assert norms(differences, "l2")[:4].tolist() == pytest.approx([0.0, 5e-200, 5e200, math.inf], rel=1e-12)
    assert norms(differences, "l1")[:4].tolist() == pytest.approx([0.0, 7e-200, 7e200, math.inf], rel=1e-12)
    assert norms(differences, "linf")[:4].tolist() == [0.0, 4e-200, 4e200, math.inf]
    assert norms(differences, "l0")[:4].tolist() == [0.0, 2.0, 2.0, 2.0]
    for norm in NORMS:
        assert norms(differences, norm)[4].isnan()
