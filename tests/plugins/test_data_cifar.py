from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
from torchvision import datasets

from unmask.components import data
from unmask.errors import UserError
from unmask.testing import conformance


def write(file: Path, key: str, labels: list[int], seed: int) -> str:
    """A batch file in the data set's own format; its md5."""
    pixels = np.random.default_rng(seed).integers(0, 256, (len(labels), 3072), np.uint8)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps({"data": pixels, key: labels}))
    return hashlib.md5(file.read_bytes()).hexdigest()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Both sets with a few images, known to torchvision by their checksums."""
    for kind, key in ((datasets.CIFAR10, "labels"), (datasets.CIFAR100, "fine_labels")):
        folder = tmp_path / kind.base_folder
        train = write(folder / "one", key, [3, 1], 0)
        test = write(folder / "two", key, [7, 0, 9], 1)
        names = {kind.meta["key"]: ["a"] * 10}
        (folder / kind.meta["filename"]).write_bytes(pickle.dumps(names))
        meta = hashlib.md5((folder / kind.meta["filename"]).read_bytes()).hexdigest()
        monkeypatch.setattr(kind, "train_list", [["one", train]])
        monkeypatch.setattr(kind, "test_list", [["two", test]])
        monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": meta})
    return tmp_path


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_both_parts_are_read(name: str, small: Path) -> None:
    test, train = (data(name, path=small, split=split) for split in ("test", "train"))
    assert test.labels.tolist() == [7, 0, 9]
    assert train.labels.tolist() == [3, 1]
    assert test.ids.tolist() == [0, 1, 2]
    expected = np.random.default_rng(1).integers(0, 256, (3, 3072), np.uint8).reshape(3, 3, 32, 32)
    assert torch.equal((test.images * 255).round().to(torch.uint8), torch.from_numpy(expected))
    assert test.images.max() <= 1
    assert test.name == name


def test_the_cache_folder_is_where_they_are_looked_for(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (small / "data").mkdir()
    (small / datasets.CIFAR10.base_folder).rename(small / "data" / datasets.CIFAR10.base_folder)
    monkeypatch.setenv("UNMASK_CACHE", str(small))
    assert len(data("cifar10", download=False)) == 3


def test_what_is_missing_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="does not hold 'cifar-10-batches-py'"):
        data("cifar10", path=tmp_path, download=False)

    def unreachable(*arguments, **options):
        raise URLError("Name or service not known")

    monkeypatch.setattr(datasets.CIFAR10, "download", unreachable)
    with pytest.raises(UserError, match=r"could not be fetched .*Name or service"):
        data("cifar10", path=tmp_path)
    with pytest.raises(UserError, match="split"):
        data("cifar10", path=tmp_path, split="valid")


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_both_pass_the_conformance_kit(name: str, small: Path) -> None:
    for test in conformance(name, options={"path": small, "download": False}).values():
        test()
