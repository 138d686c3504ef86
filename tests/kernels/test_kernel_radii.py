"""Projections onto balls of each sample's own radius."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask_kernels.balls import norms, project
from unmask_kernels.radii import shrink


def test_by_hand() -> None:
    d = torch.tensor([[3.0, -4.0], [3.0, -4.0], [0.3, -0.4]], dtype=torch.float64)
    radii = torch.tensor([1.0, torch.inf, 1.0], dtype=torch.float64)
    assert shrink(d, radii, "linf").tolist() == [[1.0, -1.0], [3.0, -4.0], [0.3, -0.4]]
    assert shrink(d, radii, "l2").tolist() == [[0.6000000000000001, -0.8], [3.0, -4.0], [0.3, -0.4]]
    assert shrink(d, radii, "l1").tolist() == [[0.0, -1.0], [3.0, -4.0], [0.3, -0.4]]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["linf", "l2", "l1"]), st.integers(1, 30), st.integers(0, 10**6))
def test_one_radius_is_the_projection_onto_one_ball(norm: str, size: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    d = torch.randn(5, size, generator=generator, dtype=torch.float64)
    radius = float(torch.rand((), generator=generator)) * 2
    shrunk = shrink(d, torch.full((5,), radius, dtype=torch.float64), norm)
    expected = project(d, torch.zeros_like(d), norm, radius, -1e9, 1e9)
    torch.testing.assert_close(shrunk, expected, rtol=1e-9, atol=1e-9)
    assert (norms(shrunk, norm) <= radius * (1 + 1e-12)).all()


def test_an_unknown_norm_is_refused() -> None:
    with pytest.raises(ValueError, match="l0"):
        shrink(torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, dtype=torch.float64), "l0")
