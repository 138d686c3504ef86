from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from safetensors.torch import save_file

from unmask.errors import MisuseError, UserError
from unmask.manifest.location import working_from
from unmask_plugins.data.arrays import arrays

IMAGES = np.random.default_rng(0).random((4, 3, 5, 6), dtype=np.float32)
LABELS = np.array([0, 2, 1, 2])


def npz(folder: Path, **content: Any) -> Path:
    np.savez(folder / "set.npz", **content)
    return folder / "set.npz"


def write(folder: Path, form: str) -> Path:
    content = {"images": IMAGES, "labels": LABELS, "ids": np.array([7, 5, 3, 1])}
    if form == "npz":
        return npz(folder, **content)
    if form == "npy":
        for name, array in content.items():
            np.save(folder / f"{name}.npy", array)
        return folder
    if form == "safetensors":
        save_file(
            {name: torch.from_numpy(array) for name, array in content.items()}, folder / "set.safetensors"
        )
        return folder / "set.safetensors"
    dims = {"images": ("sample", "channel", "height", "width"), "labels": ("sample",), "ids": ("sample",)}
    xr.Dataset({name: (dims[name], array) for name, array in content.items()}).to_netcdf(folder / "set.nc")
    return folder / "set.nc"


@pytest.mark.parametrize("form", ["npz", "npy", "safetensors", "netcdf"])
def test_every_form_gives_back_what_was_written(tmp_path: Path, form: str) -> None:
    data = arrays(write(tmp_path, form))
    np.testing.assert_array_equal(data.images.numpy(), IMAGES)
    assert data.images.dtype == torch.float32
    assert data.labels.tolist() == LABELS.tolist()
    assert data.labels.dtype == torch.int64
    assert data.ids.tolist() == [7, 5, 3, 1]


def test_bytes_with_channels_last_become_floats_with_channels_first(tmp_path: Path) -> None:
    images = np.arange(256, dtype=np.uint8)[:240].reshape(2, 8, 5, 3)
    data = arrays(npz(tmp_path, images=images, labels=np.array([0, 1], dtype=np.uint8)))
    assert data.images.shape == (2, 3, 8, 5)
    expected = torch.from_numpy(images.transpose(0, 3, 1, 2).astype(np.float32)) / 255
    assert torch.equal(data.images, expected)
    assert data.ids.tolist() == [0, 1]


def test_wide_and_big_endian_numbers_are_understood(tmp_path: Path) -> None:
    path = npz(
        tmp_path,
        images=IMAGES.astype(">f8"),
        labels=LABELS.astype(np.uint16),
        index=LABELS[::-1] * 0 + range(4),
    )
    data = arrays(path)
    np.testing.assert_array_equal(data.images.numpy(), IMAGES)
    assert data.labels.tolist() == [0, 2, 1, 2]
    assert data.ids.tolist() == [0, 1, 2, 3]


def test_paths_start_at_the_manifest_and_training_images_have_their_own(tmp_path: Path) -> None:
    write(tmp_path, "npz")
    np.savez(tmp_path / "train.npz", images=IMAGES[:1], labels=LABELS[:1])
    with working_from(tmp_path):
        assert len(arrays(Path("set.npz"))) == 4
        assert len(arrays(Path("set.npz"), train_path=Path("train.npz"), split="train")) == 1
        with pytest.raises(UserError, match=r"no training images.*`train-path`"):
            arrays(Path("set.npz"), split="train")


REFUSED: list[tuple[dict[str, Any], type[UserError], str]] = [
    ({"labels": LABELS}, UserError, "has no array 'images'; it holds labels"),
    ({"images": IMAGES}, UserError, "has no array 'labels'; it holds images"),
    ({"images": IMAGES[0], "labels": LABELS}, UserError, "not the shape of a batch of images"),
    ({"images": IMAGES[:0], "labels": LABELS[:0]}, UserError, "there is nothing in images"),
    ({"images": IMAGES * 255, "labels": LABELS}, UserError, r"not in \[0, 1\]. Divide 8-bit values by 255"),
    ({"images": IMAGES - 1, "labels": LABELS}, UserError, "leave normalisation to the model"),
    ({"images": np.where(IMAGES > 0.5, np.nan, IMAGES), "labels": LABELS}, UserError, "NaN or infinite"),
    ({"images": IMAGES.transpose(0, 2, 3, 1), "labels": LABELS}, UserError, "seem to have the channels last"),
    ({"images": np.zeros((4, 3, 8, 8), np.uint8), "labels": LABELS}, UserError, "must be the channels"),
    ({"images": np.zeros((4, 3, 8, 8), np.int32), "labels": LABELS}, MisuseError, "int32 must be float"),
    ({"images": IMAGES, "labels": LABELS.astype(float)}, MisuseError, "float64 must be whole numbers"),
    ({"images": IMAGES, "labels": np.eye(4)}, MisuseError, "one-hot"),
    ({"images": IMAGES, "labels": LABELS.reshape(4, 1)}, UserError, "must be one class index per image"),
    ({"images": IMAGES, "labels": LABELS[:3]}, UserError, "3 labels for 4 images"),
    ({"images": IMAGES, "labels": LABELS - 1}, UserError, "-1 is no class index"),
    ({"images": IMAGES, "labels": np.array(list("abcd"))}, MisuseError, "holds <U1, not numbers"),
    ({"images": IMAGES, "labels": LABELS, "ids": LABELS}, UserError, "2 occurs more than once"),
    (
        {"images": IMAGES, "labels": LABELS, "ids": LABELS[:2]},
        UserError,
        "one number for each of the 4 images",
    ),
    ({"images": IMAGES, "labels": LABELS, "ids": LABELS / 7}, MisuseError, "float64 must be whole numbers"),
]


@pytest.mark.parametrize(("content", "error", "message"), REFUSED)
def test_wrong_arrays_are_refused_with_the_file_and_the_reason(
    tmp_path: Path, content: dict[str, Any], error: type[UserError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        arrays(npz(tmp_path, **content))
    assert "set.npz" in str(caught.value)
    assert caught.value.where is not None
    assert caught.value.where.startswith("path")


def test_files_that_are_not_there_unknown_or_damaged_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        arrays(tmp_path / "missing.npz")
    (tmp_path / "set.csv").write_text("1,2")
    with pytest.raises(UserError, match=r"unknown format\. Known: \.npz"):
        arrays(tmp_path / "set.csv")
    for name in ("set.npz", "set.nc", "set.safetensors"):
        (tmp_path / name).write_bytes(b"not what the name says")
        with pytest.raises(UserError, match="cannot be read"):
            arrays(tmp_path / name)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    path = npz(tmp_path, images=np.array([{"a": 1}, None], dtype=object), labels=LABELS)
    with pytest.raises(UserError, match="cannot be read"):
        arrays(path)
