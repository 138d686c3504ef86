"""Every kernel gives the same by Inductor, TorchScript and eager; every one takes an empty batch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from unmask_kernels import balls, expectation, finite_differences, losses, philox, radii, squares
from unmask_kernels.compiling import backend, kernels

Case = Callable[[int], tuple[Any, ...]]


def _random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64)


def _images(n: int) -> Tensor:
    return _random(n, 3, 6, 4)


def _centres(n: int) -> Tensor:
    return torch.rand((n, 3, 6, 4), generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def _order(n: int, squares_: int) -> Tensor:
    return _random(n, squares_).argsort(1)


def _layout(n: int) -> Tensor:
    return finite_differences.square_blocks(_order(n, 18), 3, 6, 4, 2, 4, True)


def _words(n: int, count: int) -> Tensor:
    return torch.randint(0, 2**32, (n, count), generator=torch.Generator().manual_seed(2))


def _limits() -> Tensor:
    return torch.tensor([0.3, 0.3 * (1 - 1e-11), 0.0, 1.0], dtype=torch.float64)


def _signs(*shape: int) -> Tensor:
    return (_random(*shape) > 0).long() * 2 - 1


def _rows(n: int, offset: int) -> Tensor:
    return (torch.arange(n) + offset) % 4


CASES: dict[str, Case] = {
    "philox._words": lambda n: (_words(n, 2), torch.arange(n) * 7 * 10**9, 11),
    "philox._uniform_single": lambda n: (_words(n, 5),),
    "philox._uniform_double": lambda n: (_words(n, 6),),
    "philox._normal": lambda n: (_words(n, 8),),
    "philox._integers": lambda n: (_words(n, 5), 11),
    "philox._signs": lambda n: (_words(n, 2),),
    "balls._project_box": lambda n: (_images(n), _limits()),
    "balls._project_linf": lambda n: (_images(n), _centres(n), _limits()),
    "balls._project_l2": lambda n: (_images(n), _centres(n), _limits()),
    "balls._project_l1": lambda n: (_images(n), _centres(n), _limits()),
    "balls._project_l0": lambda n: (_images(n), _centres(n), _limits() * 10),
    "balls._steepest_linf": lambda n: (_images(n),),
    "balls._steepest_l2": lambda n: (_images(n),),
    "balls._steepest_l1": lambda n: (_images(n),),
    "balls._norms_linf": lambda n: (_images(n),),
    "balls._norms_l2": lambda n: (_images(n),),
    "balls._norms_l1": lambda n: (_images(n),),
    "balls._norms_l0": lambda n: (_images(n),),
    "losses._cross_entropy": lambda n: (_random(n, 7), _rows(n, 0)),
    "losses._margin": lambda n: (_random(n, 7), _rows(n, 0)),
    "losses._dlr": lambda n: (_random(n, 7), _rows(n, 0)),
    "losses._targeted_dlr": lambda n: (_random(n, 7), _rows(n, 0), _rows(n, 1)),
    "expectation._mean": lambda n: (_random(5, n, 4, 2),),
    "expectation._weighted_mean": lambda n: (_random(5, n, 4), _random(5, n, 1).abs()),
    "finite_differences._square_blocks": lambda n: (_order(n, 18), 3, 6, 4, 2, 4, True),
    "finite_differences.block_sizes": lambda n: (_layout(n),),
    "finite_differences.probes": lambda n: (_images(n), _layout(n), 1, 4, 1e-3),
    "finite_differences.reduce": lambda n: (
        _random(n, 5),
        _random(n, 5).flip(1),
        _layout(n),
        torch.full((n, 5), 16),
        1e-3,
        3,
        6,
        4,
    ),
    "squares.paint_windows": lambda n: (
        _images(n),
        _rows(n, 0),
        _rows(n, 1),
        _rows(n, 2),
        _random(n, 3, 1, 1),
    ),
    "squares.paint_squares": lambda n: (
        _images(n),
        _centres(n) - 1,
        _centres(n),
        _rows(n, 0),
        _rows(n, 1),
        _rows(n, 2),
        _signs(n, 3),
    ),
    "radii._shrink_linf": lambda n: (_images(n), _random(n).abs()),
    "radii._shrink_l2": lambda n: (_images(n), _random(n).abs()),
    "radii._shrink_l1": lambda n: (_images(n), _random(n).abs()),
    "squares.move_mass": lambda n: (
        _images(n),
        _random(n, 3, 3, 3),
        _rows(n, 0),
        _rows(n, 1).clamp_max(1),
        _rows(n, 2),
        _rows(n, 3).clamp_max(1),
        30 * _random(n).abs(),
        2,
    ),
    "squares.stripes": lambda n: (_centres(n) - 1, _centres(n), _signs(n, 3, 4)),
}

DIFFERENTIABLE = ("losses._cross_entropy", "losses._margin", "losses._dlr", "losses._targeted_dlr")

BACKENDS = [
    "torchscript",
    pytest.param(
        "inductor",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(
                not any(shutil.which(compiler) for compiler in ("c++", "g++", "clang++")),
                reason="Inductor needs a C++ compiler on a CPU",
            ),
        ],
    ),
]


def test_every_kernel_has_a_case() -> None:
    assert set(CASES) == set(kernels())


@pytest.mark.parametrize("compiler", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_compiled_equals_eager(name: str, compiler: str) -> None:
    function = kernels()[name]
    gradients = []
    results = []
    for by in ("eager", compiler):
        arguments = CASES[name](5)
        if name in DIFFERENTIABLE:
            logits = arguments[0]
            logits.requires_grad_(True)
        with backend(by, strict=True):
            result = function(*arguments)
        results.append(result.detach())
        if name in DIFFERENTIABLE:
            gradients.append(torch.autograd.grad(result.sum(), logits)[0])
    eager, compiled = results
    assert compiled.dtype == eager.dtype
    assert compiled.shape == eager.shape
    if eager.dtype == torch.int64:
        assert torch.equal(compiled, eager)
    else:
        assert eager.isfinite().all()
        torch.testing.assert_close(compiled, eager, rtol=1e-10, atol=1e-10)
    if gradients:
        assert gradients[0].abs().sum() > 0
        torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("compiler", BACKENDS)
@pytest.mark.parametrize("norm", balls.NORMS)
def test_compiled_projections_are_exact_in_float32(norm: str, compiler: str) -> None:
    centres = _centres(9).float()
    points = _images(9).float()
    with backend(compiler, strict=True):
        projected = balls.project(points, centres, norm, 8 / 255, 0.0, 1.0)
    with backend("eager"):
        assert torch.equal(projected, balls.project(points, centres, norm, 8 / 255, 0.0, 1.0))
        assert (balls.norms(projected.double() - centres.double(), norm) <= 8 / 255).all()


@pytest.mark.parametrize("name", CASES)
def test_empty_batches(name: str) -> None:
    function = kernels()[name]
    some = function(*CASES[name](2))
    none = function(*CASES[name](0))
    assert none.numel() == 0
    assert none.dtype == some.dtype
    assert tuple(size or 2 for size in none.shape) == tuple(some.shape)


def test_empty_batches_through_the_public_functions() -> None:
    keys, calls = torch.zeros((0, 2), dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    assert philox.uniform(keys, calls, 3, torch.float32).shape == (0, 3)
    assert philox.uniform(keys, calls, 3, torch.float64).shape == (0, 3)
    assert philox.normal(keys, calls, 3, torch.float32).shape == (0, 3)
    assert philox.integers(keys, calls, 3, -1, 5).shape == (0, 3)
    assert philox.signs(keys, calls, 3, torch.float32).shape == (0, 3)
    images = _images(0)
    for norm in balls.NORMS:
        assert balls.project(images, images, norm, 0.1, 0.0, 1.0).shape == images.shape
        assert balls.steepest(images, norm).shape == images.shape
        assert balls.norms(images, norm).shape == (0,)
        if norm != "l0":
            assert radii.shrink(images, torch.ones(0, dtype=torch.float64), norm).shape == images.shape
    logits, labels = torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64)
    for loss in (losses.cross_entropy, losses.margin, losses.dlr):
        assert loss(logits, labels).shape == (0,)
    for targeted in (losses.targeted_cross_entropy, losses.targeted_margin, losses.targeted_dlr):
        assert targeted(logits, labels, labels).shape == (0,)
    assert expectation.weighted_mean(torch.zeros(3, 0, 2), torch.ones(3)).shape == (0, 2)
    lower, upper = squares.corners(images, 0.1, 0.0, 1.0)
    assert lower.shape == upper.shape == images.shape
