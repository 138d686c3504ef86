"""Zero-order gradients: exact on linear functions, block means otherwise; layouts that cover the image."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from unmask_kernels import finite_differences as fd


def estimate(function: object, x: Tensor, layout: Tensor, blocks: int, step: float, chunk: int) -> Tensor:
    """The gradient, `chunk` blocks at a time, as a gradient source uses the kernels."""
    plus, minus = [], []
    for first in range(0, blocks, chunk):
        last = min(first + chunk, blocks)
        points = fd.probes(x, layout, first, last, step)
        assert points.shape == (len(x), 2 * (last - first), *x.shape[1:])
        values = function(points.flatten(0, 1)).reshape(len(x), -1)  # type: ignore[operator]
        plus.append(values[:, 0::2])
        minus.append(values[:, 1::2])
    sizes = fd.block_sizes(layout)
    return fd.reduce(torch.cat(plus, 1), torch.cat(minus, 1), layout, sizes, step, *x.shape[1:])


def block_of_each(layout: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The block of every variable [n, channel, height, width], from the lists of every block's variables."""
    found = torch.full((len(layout), *shape), -1)
    for number in range(layout.shape[1]):
        here = torch.zeros(found.shape, dtype=torch.bool).flatten(1).scatter_(1, layout[:, number], True)
        here = here.reshape(found.shape)
        assert (found[here] == -1).all(), "a variable of two blocks"
        found[here] = number
    return found


def permutations(n: int, squares: int, seed: int) -> Tensor:
    return torch.rand((n, squares), generator=torch.Generator().manual_seed(seed)).argsort(1)


LAYOUTS = {
    "c": st.integers(1, 3),
    "h": st.integers(1, 7),
    "w": st.integers(1, 7),
    "square": st.integers(1, 8),
    "group": st.integers(1, 6),
    "separate": st.booleans(),
    "seed": st.integers(0, 10**6),
}


@settings(max_examples=100, deadline=None)
@given(**LAYOUTS)
def test_a_layout_partitions_the_image_into_whole_squares(
    c: int, h: int, w: int, square: int, group: int, separate: bool, seed: int
) -> None:
    squares = fd.count_squares(c, h, w, square, separate)
    blocks = fd.count_blocks(squares, group)
    order = permutations(2, squares, seed)
    layout = fd.square_blocks(order, c, h, w, square, group, separate)
    assert layout.shape[:2] == (2, blocks)
    block = block_of_each(layout, (c, h, w))
    # Written out: the square visited p-th goes into block p // group.
    columns = -(-w // square)
    for i in range(2):
        place = {q: p for p, q in enumerate(order[i].tolist())}
        for channel in range(c):
            for y in range(h):
                for x in range(w):
                    q = (y // square) * columns + x // square
                    if separate:
                        q += channel * -(-h // square) * columns
                    assert block[i, channel, y, x] == place[q] // group
    sizes = fd.block_sizes(layout)
    assert sizes.shape == (2, blocks)
    for number in range(blocks):
        assert sizes[:, number].tolist() == (block == number).flatten(1).sum(1).tolist()


@settings(max_examples=50, deadline=None)
@given(**LAYOUTS, chunk=st.integers(1, 5))
def test_a_linear_function_gives_every_block_its_mean_derivative(
    c: int, h: int, w: int, square: int, group: int, separate: bool, seed: int, chunk: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn((c, h, w), generator=generator, dtype=torch.float64)
    x = torch.rand((2, c, h, w), generator=generator, dtype=torch.float64)
    squares = fd.count_squares(c, h, w, square, separate)
    blocks = fd.count_blocks(squares, group)
    layout = fd.square_blocks(permutations(2, squares, seed), c, h, w, square, group, separate)
    gradient = estimate(lambda z: (z * weights).flatten(1).sum(1), x, layout, blocks, 1e-2, chunk)
    block_of = block_of_each(layout, (c, h, w))
    for i in range(2):
        for block in range(blocks):
            inside = block_of[i] == block
            expected = weights[inside].mean().expand(int(inside.sum()))
            torch.testing.assert_close(gradient[i][inside], expected, rtol=1e-9, atol=1e-9)


def test_single_variables_give_the_gradient_of_a_quadratic_function_exactly() -> None:
    x = torch.rand((3, 2, 3, 2), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    order = permutations(1, 12, 1)
    layout = fd.square_blocks(order, 2, 3, 2, separate_channels=True)
    assert layout.shape == (1, 12, 1)
    gradient = estimate(lambda z: (z**2).flatten(1).sum(1), x, layout, 12, 0.1, 12)
    torch.testing.assert_close(gradient, 2 * x, rtol=1e-12, atol=1e-12)


def test_probes_move_one_block_up_and_down() -> None:
    x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    # The first and the last block have one variable, which they name twice.
    layout = torch.tensor([[[0, 0], [1, 2], [3, 3]]])
    points = fd.probes(x, layout, 1, 3, 0.5)
    assert points[0, :, 0].flatten(1).tolist() == [
        [1.0, 2.5, 3.5, 4.0],
        [1.0, 1.5, 2.5, 4.0],
        [1.0, 2.0, 3.0, 4.5],
        [1.0, 2.0, 3.0, 3.5],
    ]
    assert points.dtype == x.dtype
    assert x.flatten().tolist() == [1.0, 2.0, 3.0, 4.0]


def test_squares_at_the_border_and_the_last_block_name_their_first_variable_again() -> None:
    layout = fd.square_blocks(torch.tensor([[2, 0, 1]]), 1, 2, 5, square=2, group=2)
    assert layout.tolist() == [[[4, 4, 9, 4, 0, 1, 5, 6], [2, 3, 7, 8, 2, 2, 2, 2]]]
    assert fd.block_sizes(layout).tolist() == [[6, 4]]


def test_every_sample_has_its_own_layout() -> None:
    layout = fd.square_blocks(torch.tensor([[0, 1], [1, 0]]), 1, 1, 2)
    assert layout.tolist() == [[[0], [1]], [[1], [0]]]
    points = fd.probes(torch.zeros(2, 1, 1, 2), layout, 0, 1, 1.0)
    assert points.flatten(2).tolist() == [[[1.0, 0.0], [-1.0, 0.0]], [[0.0, 1.0], [0.0, -1.0]]]


def test_bad_layouts_are_refused() -> None:
    order = torch.arange(4).unsqueeze(0)
    with pytest.raises(ValueError, match="at least 1 pixel"):
        fd.square_blocks(order, 1, 2, 2, square=0)
    with pytest.raises(ValueError, match="at least 1 square"):
        fd.square_blocks(order, 1, 2, 2, group=0)
    with pytest.raises(ValueError, match=r"\[n or 1, 12 squares\], not \[1, 4\]"):
        fd.square_blocks(order, 3, 2, 2, separate_channels=True)
