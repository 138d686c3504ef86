from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from unmask.components import data
from unmask.errors import UserError


def test_an_npy_file_brings_its_neighbours(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    pixels = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    np.save(folder / "images.npy", pixels)
    np.save(folder / "labels.npy", np.array([1, 0]))
    by_file, by_folder = data("arrays", path=folder / "images.npy"), data("arrays", path=folder)
    assert torch.equal(by_file.images, by_folder.images)
    assert by_file.images[0, 1, 0, 0].item() == pytest.approx(1 / 255)
    assert by_file.labels.tolist() == [1, 0]
    assert by_file.name == "mine"
    (folder / "labels.npy").unlink()
    with pytest.raises(UserError, match="no array 'labels'"):
        data("arrays", path=folder / "images.npy")


def test_one_array_alone_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x_test.npy", np.zeros((1, 1, 2, 2)))
    with pytest.raises(UserError, match=r"call it images\.npy"):
        data("arrays", path=tmp_path / "x_test.npy")
