"""The short form for an accelerator: PGD-20 on random weights, in both precisions, against a bare loop."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn

import unmask
from bench import ours, peers
from bench.rows import Found
from bench.setting import Setting
from bench.timing import seconds

SUBJECTS = {
    "ResNet-18, 32 x 32": (32, 256),
    "DnCNN-17 x 64 + ResNet-18, 32 x 32": (32, 128),
    "ResNet-50, 224 x 224": (224, 64),
    "ViT-B/16, 224 x 224": (224, 64),
}
"""Size of the images and their number."""


def _model(name: str) -> nn.Module:
    torch.manual_seed(0)
    if "224" in name:
        built = "resnet50" if name.startswith("ResNet") else "vit_b_16"
        return unmask.model("torchvision", name=built)
    backbone = unmask.model("cifar-resnet", depth=18)
    if not name.startswith("DnCNN"):
        return backbone
    return unmask.Defended(unmask.front_end("dncnn", depth=17, channels=64), backbone)


def short_form(setting: Setting, limit: float = 240.0, scale: int = 1) -> Iterator[Found]:
    """Every model until `limit` seconds are over; `scale` divides the numbers of images."""
    deadline = time.monotonic() + limit
    for name, (side, count) in SUBJECTS.items():
        if time.monotonic() > deadline:
            return
        with torch.random.fork_rng():
            model = _model(name).eval().requires_grad_(False).to(setting.device)
        n = max(count // scale, 1)
        images = torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(1)).to(setting.device)
        with torch.no_grad():
            labels: Tensor = torch.cat([model(part).argmax(1) for part in images.split(16)])
        attack = unmask.attack("pgd", steps=20)
        peers.bare_pgd(model, images, labels, 1)
        bare = seconds(lambda: peers.bare_pgd(model, images, labels, 20), setting.device)  # noqa: B023
        for precision in ("float32", "fast"):
            run = lambda p=precision: ours.robust_accuracy(model, images, labels, attack, precision=p)  # noqa: B023, E731
            taken = seconds(run, setting.device)
            yield Found(
                f"{name}, PGD-20, {precision} / bare loop", f"{bare / taken:.2f} x", "> 1 x", bare > taken,
                f"{taken:.2f} s / {bare:.2f} s, {n} images",
            )  # fmt: skip
