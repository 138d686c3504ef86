"""Every built-in component passes the public conformance kit, as anybody's must.

The two CIFARs, whose files are known by their checksums, do so in `test_data_cifar.py`.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from unmask.plugins.catalog import KINDS, catalog, singular
from unmask.testing import conformance, small_net

SETTINGS: dict[str, dict[str, Any]] = {
    "attack autoattack": {
        "options": {
            "version": "custom",
            "attacks": [
                {"use": "pgd", "steps": 2},
                {"use": "fab", "steps": 2},
                {"use": "square", "queries": 4},
            ],
        }
    },
    "attack boundary": {"options": {"tries": 4}},
    "attack carlini-wagner": {"options": {"searches": 2, "steps": 6, "rate": 0.1, "c": 1.0}},
    "attack hop-skip-jump": {"options": {"evaluations": 6, "most_evaluations": 12, "tries": 4}},
    "attack transfer": {"options": {"attack": {"use": "pgd", "steps": 3}}},
    "model cifar-resnet": {"options": {"depth": 20}},
    "model wide-resnet": {"options": {"depth": 10, "width": 1}},
    "model module": {"options": {"factory": "unmask.testing:small_net"}, "image": (1, 6, 7)},
    "model timm": {"options": {"name": "test_resnet.r160_in1k", "size": 32}, "image": (3, 32, 32)},
    "model torchvision": {"options": {"name": "squeezenet1_1", "size": 32}, "image": (3, 32, 32)},
    "front-end dncnn": {"options": {"depth": 4, "channels": 8}},
    "ensemble dropout-at-test": {"members": 1, "options": {"rate": 0.1}},
    "ensemble noise-layers": {"members": 1},
    "ensemble random-normalization": {"members": 1, "options": {"groups": [1, 2]}},
    "ensemble random-precision": {"members": 1},
    "metric certified-radius": {"options": {"n": 40, "n0": 10}},
}
"""What the kit must be told of some of them."""

NEEDS_FILES = ("torchscript", "torch-export", "arrays", "cifar10", "cifar100", "image-folder", "imagenet")

OF_OTHER_LIBRARIES = ("art", "hugging-face", "robustbench", "torch-hub")
"""Models and data that come out of another library or from its hub: `test_adapters_*.py`."""

BUILT_IN = [
    (singular(kind), provided.name)
    for kind in KINDS
    for provided in catalog().entries(kind)
    if provided.distribution == "unmask" and provided.name not in OF_OTHER_LIBRARIES
]

for kind, name in BUILT_IN:
    if name not in NEEDS_FILES:
        globals().update(conformance(name, kind=kind, **SETTINGS.get(f"{kind} {name}", {})))


def _made(name: str, folder: Path) -> dict[str, Any]:
    """Files for a component that needs some; what the kit must then be told."""
    generator = torch.Generator().manual_seed(0)
    if name == "arrays":
        for part in ("test", "train"):
            images = torch.rand(12, 2, 4, 5, generator=generator).numpy()
            np.savez(folder / f"{part}.npz", images=images, labels=np.arange(12) % 3)
        return {"options": {"path": folder / "test.npz", "train_path": folder / "train.npz"}}
    if name in ("image-folder", "imagenet"):
        for part, wordnet in itertools.product(("train", "val"), ("n01440764", "n01443537")):
            place = folder / part / wordnet
            place.mkdir(parents=True)
            for k in range(3):
                pixels = torch.randint(0, 256, (9, 8, 3), generator=generator, dtype=torch.uint8)
                Image.fromarray(pixels.numpy()).save(place / f"{k}.png")
        if name == "imagenet":
            return {"options": {"path": folder, "size": 6, "resize": 7}}
        return {"options": {"path": folder / "val", "train_path": folder / "train", "size": 6}}
    file = folder / "net.pt2"
    net, shown = small_net(1, 4), torch.rand(2, 1, 6, 7, generator=generator)
    if name == "torchscript":
        torch.jit.save(torch.jit.trace(net, shown), file)
    else:
        batch = {"images": {0: torch.export.Dim("batch", min=1, max=512)}}
        program = torch.export.export(_Named(net), (shown,), dynamic_shapes=batch)
        torch.export.save(program, file)
    return {"options": {"path": file, "image_channels": 1, "classes": 4}, "image": (1, 6, 7)}


class _Named(torch.nn.Module):
    """A model whose argument has the name that `dynamic_shapes` speaks of."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.inner(images)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", [name for name in NEEDS_FILES if not name.startswith("cifar")])
def test_those_that_need_files_pass_too(name: str, tmp_path: Path) -> None:
    tests = conformance(name, **_made(name, tmp_path))
    assert len(tests) >= 5
    for test in tests.values():
        test()


def test_no_built_in_component_is_left_out() -> None:
    found = "\n".join(globals())
    for kind, name in BUILT_IN:
        slug = f"test_{kind}_{name}_".replace("-", "_")
        assert slug in found or name in NEEDS_FILES, f"{kind} {name}"
