from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from unmask.components import data
from unmask.errors import UserError
from unmask.manifest.data_section import build_data
from unmask.manifest.reading import parse_manifest


def write(file: Path, width: int = 6, height: int = 6, value: int = 0, mode: str = "RGB") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (width, height), value if mode == "L" else (value, 0, 255)).save(file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "set" / "b" / "2.png", value=102)
    write(tmp_path / "set" / "b" / "1.png", value=51)
    write(tmp_path / "set" / "a" / "z.png", value=0)
    write(tmp_path / "set" / "c" / "grey.png", value=204, mode="L")
    (tmp_path / "set" / "c" / "note.txt").write_text("no image")
    return tmp_path / "set"


def test_folders_in_alphabetical_order_are_the_classes(folder: Path) -> None:
    found = data("image_folder".replace("_", "-"), path=folder)
    assert found.labels.tolist() == [0, 1, 1, 2]
    assert found.ids.tolist() == [0, 1, 2, 3]
    assert found.images.shape == (4, 3, 6, 6)
    assert found.images[:, 0, 0, 0].tolist() == pytest.approx([0, 0.2, 0.4, 0.8])
    assert found.images[3, 2, 0, 0].item() == pytest.approx(0.8)
    assert found.name == "set"


def test_the_middle_is_cut_out_of_the_resized_image(tmp_path: Path) -> None:
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[:, 4:12] = 255  # the middle square
    (tmp_path / "one").mkdir()
    Image.fromarray(pixels).save(tmp_path / "one" / "wide.png")
    images = data("image-folder", path=tmp_path, size=8).images
    assert torch.equal(images, torch.ones(1, 3, 8, 8))
    half = data("image-folder", path=tmp_path, size=4).images
    assert half.shape == (1, 3, 4, 4)
    assert half[..., 1:3].min() > 0.9
    inner = data("image-folder", path=tmp_path, size=4, resize=8).images
    assert torch.equal(inner, torch.ones(1, 3, 4, 4))


def test_only_chosen_samples_are_read(folder: Path) -> None:
    (folder / "a" / "z.png").write_bytes(b"not an image")
    text = f"""
    epsilons = [0.1]
    data = {{ use = "image-folder", path = "{folder}", size = 4, samples = 2 }}
    [models]
    m = {{ use = "small-cnn" }}
    [attacks]
    pgd = "pgd"
    """
    read = []
    for seed in range(12):
        try:
            found = build_data(parse_manifest(f"seed = {seed}\n{text}"))
        except UserError as error:
            assert "z.png" in str(error)
        else:
            assert 0 not in found.ids.tolist()
            assert found.images.shape == (2, 3, 4, 4)
            read.append(tuple(found.ids.tolist()))
    assert len(set(read)) > 1


def test_training_images_have_a_folder_of_their_own(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train_path|train-path"):
        data("image-folder", path=folder, split="train")
    for name in "abc":
        write(tmp_path / "train" / name / "1.png")
    found = data("image-folder", path=folder, train_path=tmp_path / "train", split="train")
    assert found.labels.tolist() == [0, 1, 2]
    write(tmp_path / "train" / "d" / "1.png")
    with pytest.raises(UserError, match="differ in d"):
        data("image-folder", path=folder, train_path=tmp_path / "train", split="train")


def test_bad_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder"):
        data("image-folder", path=tmp_path / "absent")
    with pytest.raises(UserError, match="holds no folders"):
        data("image-folder", path=folder / "a")
    (tmp_path / "empty" / "a").mkdir(parents=True)
    with pytest.raises(UserError, match="hold no images"):
        data("image-folder", path=tmp_path / "empty")
    with pytest.raises(UserError, match="resize"):
        data("image-folder", path=folder, resize=8)
    with pytest.raises(UserError, match="at least 1"):
        data("image-folder", path=folder, size=0)
    write(folder / "a" / "large.png", width=9)
    with pytest.raises(UserError, match="Give a `size`"):
        data("image-folder", path=folder)


def test_imagenet_classes_are_those_of_the_challenge(tmp_path: Path) -> None:
    # Tench is class 0, toilet tissue 999, sorted by WordNet id.
    write(tmp_path / "val" / "n01440764" / "a.JPEG", 300, 260)
    write(tmp_path / "val" / "n15075141" / "b.JPEG", 260, 300)
    found = data("imagenet", path=tmp_path)
    assert found.labels.tolist() == [0, 999]
    assert found.images.shape == (2, 3, 224, 224)
    direct = data("imagenet", path=tmp_path / "val", size=32, resize=36)
    assert direct.labels.tolist() == [0, 999]
    with pytest.raises(UserError, match="no folder 'train'"):
        data("imagenet", path=tmp_path, split="train")
    write(tmp_path / "val" / "n01440765" / "a.JPEG")
    with pytest.raises(UserError, match="Did you mean 'n01440764'"):
        data("imagenet", path=tmp_path)
    with pytest.raises(UserError, match="cannot be fetched"):
        data("imagenet", path=tmp_path / "absent")
