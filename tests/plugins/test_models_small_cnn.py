from __future__ import annotations

import pytest
import torch

from unmask.errors import UserError
from unmask_plugins.models.small_cnn import SmallCNN


def test_parameter_count_follows_from_the_architecture() -> None:
    # Convolutions 9*1*8 + 9*8*8 + 9*8*8, three BatchNorms of 2*8, a linear layer from 8*4*4 to 10.
    expected = 72 + 576 + 576 + 48 + 128 * 10 + 10
    model = SmallCNN(classes=10, image_channels=1, width=8)
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


@pytest.mark.parametrize("size", [(8, 8), (32, 32), (9, 14), (3, 3)])
def test_any_image_size_gives_one_logit_per_class(size: tuple[int, int]) -> None:
    model = SmallCNN(classes=7, image_channels=3, width=4).eval()
    assert model(torch.rand(5, 3, *size)).shape == (5, 7)


def test_rows_do_not_influence_one_another_in_eval_mode() -> None:
    model = SmallCNN().double().eval()
    images = torch.rand(6, 1, 8, 8, dtype=torch.float64)
    alone = torch.cat([model(image.unsqueeze(0)) for image in images])
    torch.testing.assert_close(model(images), alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": 1}, "classes: 1 must be at least 2"),
        ({"image_channels": 0}, "image_channels: 0 must be at least 1"),
        ({"width": -3}, "width: -3 must be at least 1"),
    ],
)
def test_impossible_sizes_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SmallCNN(**options)
