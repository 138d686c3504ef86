from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

import unmask
from unmask.errors import UserError
from unmask_plugins.front_ends.median import mean_filter
from unmask_plugins.front_ends.random_resize_pad import mean_resize
from unmask_plugins.front_ends.total_variation import _divergence, _gradient

NAMES = ("identity", "jpeg", "bit-depth", "gaussian-noise", "random-resize-pad", "median", "total-variation")


def picture(n: int = 3, channels: int = 3, side: int = 16, seed: int = 0) -> Tensor:
    return torch.rand(n, channels, side, side, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [1, 3])
def test_images_keep_shape_type_and_row(name: str, channels: int) -> None:
    front_end, images = unmask.front_end(name), picture(channels=channels)
    before = images.clone()
    torch.manual_seed(1)
    shown = front_end(images)
    assert shown.shape == images.shape
    assert shown.dtype == images.dtype
    assert torch.equal(images, before)
    assert not list(front_end.parameters())


@pytest.mark.parametrize("name", ["identity", "jpeg", "bit-depth", "median"])
def test_a_row_does_not_depend_on_the_others(name: str) -> None:
    front_end, images = unmask.front_end(name), picture(5)
    assert torch.equal(front_end(images)[2:3], front_end(images[2:3]))


@pytest.mark.parametrize("name", ["gaussian-noise", "random-resize-pad", "total-variation"])
def test_every_row_has_its_own_draw_from_the_global_generator(name: str) -> None:
    front_end = unmask.front_end(name)
    images = picture(1, side=32).expand(6, -1, -1, -1)
    torch.manual_seed(0)
    first = front_end(images)
    assert not torch.equal(first[0], first[1])
    torch.manual_seed(0)
    assert torch.equal(front_end(images), first)


def test_identity() -> None:
    images = picture()
    assert torch.equal(unmask.front_end("identity")(images), images)


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_what_pillow_writes(channels: int) -> None:
    images = torch.randint(256, (2, channels, 16, 24), dtype=torch.uint8)
    shown = unmask.front_end("jpeg", quality=40)(images.float() / 255)
    for given_, found in zip(images, shown, strict=True):
        array = given_.permute(1, 2, 0).numpy()
        file = io.BytesIO()
        Image.fromarray(array[..., 0] if channels == 1 else array).save(file, "JPEG", quality=40)
        expected = np.array(Image.open(file)).reshape(array.shape)
        np.testing.assert_allclose(found.permute(1, 2, 0).numpy() * 255, expected, atol=1e-4)


def test_jpeg_has_no_gradient_and_finer_quality_is_closer() -> None:
    images = picture().requires_grad_()
    coarse, fine = (unmask.front_end("jpeg", quality=q)(images) for q in (10, 95))
    assert not coarse.requires_grad
    assert (fine - images).abs().mean() < (coarse - images).abs().mean()
    with pytest.raises(UserError, match="4 channels"):
        unmask.front_end("jpeg")(torch.rand(1, 4, 8, 8))


def test_bit_depth_levels() -> None:
    values = torch.tensor([0.0, 0.1, 0.2, 0.49, 0.51, 0.9, 1.0]).reshape(1, 1, 1, -1)
    one = unmask.front_end("bit-depth", bits=1)(values)
    assert one.flatten().tolist() == [0, 0, 0, 0, 1, 1, 1]
    two = unmask.front_end("bit-depth", bits=2)(values)
    torch.testing.assert_close(two.flatten(), torch.tensor([0, 0, 1, 1, 2, 3, 3]) / 3)
    eight = torch.arange(256).reshape(1, 1, 16, 16) / 255
    torch.testing.assert_close(unmask.front_end("bit-depth", bits=8)(eight), eight)


def test_gaussian_noise_has_the_stated_deviation_and_the_identity_as_jacobian() -> None:
    torch.manual_seed(0)
    images = torch.full((4, 3, 64, 64), 0.5, requires_grad=True)
    shown = unmask.front_end("gaussian-noise", sigma=0.25)(images)
    assert (shown - images).std().item() == pytest.approx(0.25, rel=0.02)
    weight = torch.rand_like(images)
    (gradient,) = torch.autograd.grad((weight * shown).sum(), images)
    assert torch.equal(gradient, weight)


def test_median_of_a_known_window() -> None:
    images = torch.tensor([[9.0, 1, 8], [2, 7, 3], [6, 4, 5]]).reshape(1, 1, 3, 3)
    shown = unmask.front_end("median")(images)
    assert shown[0, 0, 1, 1] == 5
    # Mirrored without repeating the border: the corner sees 7 2 7 1 9 1 7 2 7.
    assert shown[0, 0, 0, 0] == 7
    assert torch.equal(unmask.front_end("median", window=1)(images), images)
    torch.testing.assert_close(mean_filter(images)[0, 0, 1, 1], torch.tensor(5.0))


def test_median_removes_a_single_odd_pixel() -> None:
    images = torch.full((1, 1, 7, 7), 0.3)
    images[0, 0, 3, 3] = 1
    assert torch.equal(unmask.front_end("median")(images), torch.full((1, 1, 7, 7), 0.3))


def test_random_resize_pad_shows_the_whole_image_inside_zeros() -> None:
    torch.manual_seed(0)
    front_end = unmask.front_end("random-resize-pad", smallest=0.5)
    places, sizes = set(), set()
    for _ in range(60):
        inside = front_end(torch.ones(1, 1, 16, 16))[0, 0]
        rows, columns = inside.any(1).nonzero().flatten(), inside.any(0).nonzero().flatten()
        sizes.add(len(rows))
        places.add((int(rows[0]), int(columns[0])))
        assert len(rows) == len(columns)
        assert inside.sum() == len(rows) * len(columns)
    assert min(sizes) == 8
    assert max(sizes) == 15  # the full size is left out, as in the paper
    assert len(places) > 20


def test_random_resize_pad_in_the_papers_own_setting() -> None:
    torch.manual_seed(0)
    front_end = unmask.front_end("random-resize-pad", padded=331)
    shown = front_end(torch.ones(2, 1, 299, 299))
    assert shown.shape == (2, 1, 331, 331)
    for image in shown[:, 0]:
        assert 299 <= int(image.any(1).sum()) <= 330
    assert front_end.surrogate(torch.ones(2, 1, 299, 299)).shape == (2, 1, 331, 331)
    middle = mean_resize(torch.ones(1, 1, 16, 16), smallest=0.5)[0, 0]
    torch.testing.assert_close(middle[2:14, 2:14], torch.ones(12, 12))
    assert middle.sum().item() == pytest.approx(144)


def test_total_variation_of_one_edge_has_a_closed_form() -> None:
    # A vertical edge between halves of width w: each side moves towards the other by weight / w.
    images = torch.cat([torch.zeros(1, 1, 4, 5), torch.ones(1, 1, 4, 5)], 3).double()
    shown = unmask.front_end("total-variation", weight=0.5, keep=1.0, iterations=2000)(images)
    expected = torch.cat([torch.full((4, 5), 0.1), torch.full((4, 5), 0.9)], 1).double()
    torch.testing.assert_close(shown[0, 0], expected, atol=1e-3, rtol=0)


def test_total_variation_fills_in_what_is_dropped() -> None:
    torch.manual_seed(0)
    images = torch.full((1, 3, 8, 8), 0.7)
    shown = unmask.front_end("total-variation", keep=0.5, iterations=1500)(images)
    torch.testing.assert_close(shown, images, atol=0.01, rtol=0)


def test_total_variation_carries_gradients() -> None:
    torch.manual_seed(0)
    images = picture(1, 1, 6).double().requires_grad_()
    front_end = unmask.front_end("total-variation", keep=1.0, iterations=20)
    assert torch.autograd.gradcheck(front_end, (images,), eps=1e-6, atol=1e-4)


@given(seed=st.integers(0, 99), height=st.integers(1, 6), width=st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_divergence_is_minus_the_adjoint_of_the_gradient(seed: int, height: int, width: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    z = torch.rand(2, 1, height, width, generator=generator).double()
    dual = torch.rand(2, 2, 1, height, width, generator=generator).double()
    left = (_gradient(z) * dual).sum()
    torch.testing.assert_close(left, -(z * _divergence(dual)).sum())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("jpeg", {"quality": 0}),
        ("jpeg", {"quality": 96}),
        ("bit-depth", {"bits": 0}),
        ("bit-depth", {"bits": 9}),
        ("gaussian-noise", {"sigma": -0.1}),
        ("random-resize-pad", {"smallest": 0.0}),
        ("random-resize-pad", {"padded": 0}),
        ("median", {"window": 2}),
        ("total-variation", {"weight": 0.0}),
        ("total-variation", {"keep": 0.0}),
        ("total-variation", {"iterations": 0}),
    ],
)
def test_options_out_of_range_are_refused(name: str, options) -> None:
    with pytest.raises(UserError) as caught:
        unmask.front_end(name, **options)
    assert next(iter(options)) in str(caught.value)


def test_a_window_larger_than_the_image_is_refused() -> None:
    with pytest.raises(UserError, match="too large"):
        unmask.front_end("median", window=9)(torch.rand(1, 1, 4, 4))
