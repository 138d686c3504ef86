from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from unmask.errors import UserError
from unmask_plugins.data.digits import digits


def test_train_and_test_are_the_whole_set_in_order() -> None:
    train, test = digits("train"), digits("test")
    assert (len(train), len(test)) == (1437, 360)
    assert torch.equal(torch.cat([train.ids, test.ids]), torch.arange(1797))
    whole = load_digits()
    images = torch.cat([train.images, test.images]).squeeze(1).double().numpy()
    np.testing.assert_array_equal(images * 16, whole.images)
    np.testing.assert_array_equal(torch.cat([train.labels, test.labels]).numpy(), whole.target)


def test_images_are_what_an_evaluation_takes() -> None:
    data = digits()
    assert data.images.dtype == torch.float32
    assert data.images.shape == (360, 1, 8, 8)
    assert (data.images.min().item(), data.images.max().item()) == (0.0, 1.0)
    assert data.labels.dtype == torch.int64
    assert data.labels.unique().tolist() == list(range(10))
    assert data.name == "digits"


def test_other_splits_are_refused() -> None:
    with pytest.raises(UserError, match="'validation' is neither"):
        digits("validation")  # type: ignore[arg-type]
