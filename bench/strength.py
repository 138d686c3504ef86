"""How strong the attacks are beside pyautoattack's, on CIFAR-10 networks at 8/255 (linf).

    python -m bench.strength --data DIR --out FOLDER [--samples 200] [--models ...] [--attacks ...]
    python -m bench.strength --out FOLDER --table

Every pair of a network and an attack is run by both sides with the same settings and budget, and what came
out is kept in FOLDER, a file for each; the same command goes on where it stopped. Then the table is printed,
as docs/attacks.md has it. With `--data` as in README.md, and `resnet32-d509ac18.th` besides. On one core, the
adversarially trained ResNet-20 takes about an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

NETWORKS = {
    "ResNet-20": (20, "resnet20-12fca82f.th"),
    "ResNet-32": (32, "resnet32-d509ac18.th"),
    "ResNet-20, adversarial": (20, "resnet20-adversarial.pt"),
}
ATTACKS: dict[str, dict[str, Any]] = {
    "apgd-ce": {"use": "apgd"},
    "apgd-dlr": {"use": "apgd", "loss": "dlr"},
    "apgd-t": {"use": "apgd", "loss": "dlr", "targets": 9},
    "fab-t": {"use": "fab-t"},
    "square": {"use": "square"},
    "standard": {"use": "autoattack"},
}
SIDES = ("unmask", "pyautoattack")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with images and weights")
    parser.add_argument("--out", type=Path, required=True, help="folder of what came out")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--models", nargs="*", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--attacks", nargs="*", choices=list(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--table", action="store_true", help="print what is there and run nothing")
    asked = parser.parse_args()
    if not asked.table:
        if asked.data is None:
            parser.error("--data is missing")
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        asked.out.mkdir(parents=True, exist_ok=True)
        for network in asked.models:
            for attack in asked.attacks:
                for side in SIDES:
                    kept = file_of(asked.out, network, attack, side)
                    if not kept.exists():
                        found = measured(asked.data, asked.samples, network, attack, side)
                        kept.write_text(json.dumps(found), encoding="utf-8")
                        print(network, attack, side, found, file=sys.stderr, flush=True)
    print(table(asked.out))
    return 0


def file_of(folder: Path, network: str, attack: str, side: str) -> Path:
    return folder / f"{network.replace(', ', '-').lower()} {attack} {side}.json"


def measured(data: Path, samples: int, network: str, attack: str, side: str) -> dict[str, float]:
    """What one side leaves of a network, and what it asked for."""
    import torch

    from bench.setting import Setting

    torch.set_num_threads(1)
    depth, weights = NETWORKS[network]
    setting = Setting(torch.device("cpu"), 1, samples, data)
    model = setting.model(weights, depth)
    images, labels = setting.samples_of(model)
    begun = time.process_time()
    left, forwards = (ours if side == "unmask" else theirs)(model, images, labels, attack)
    with torch.no_grad():
        right = int((model(images).argmax(1) == labels).sum())
    return {
        "samples": samples,
        "right": right,
        "left": left,
        "forwards": forwards,
        "seconds": round(time.process_time() - begun, 1),
    }


def ours(model: Any, images: Any, labels: Any, attack: str) -> tuple[int, int]:
    from bench.ours import robust_accuracy

    _, results = robust_accuracy(model, images, labels, ATTACKS[attack])
    found = results.sel(attack="attack")
    return int(found.correct.sum()), int(found.forwards.sum())


def theirs(model: Any, images: Any, labels: Any, attack: str) -> tuple[int, int]:
    from bench.peers import pyautoattack

    counted = 0

    def count(_: Any, shown: tuple[Any, ...]) -> None:
        nonlocal counted
        counted += len(shown[0])

    handle = model.register_forward_pre_hook(count)
    try:
        share = pyautoattack(model, images, labels, None if attack == "standard" else [attack])
    finally:
        handle.remove()
    # Of these, one each is for the clean prediction, for the one before the attack, and for that of the end.
    return round(share * len(images)), counted


def table(folder: Path) -> str:
    """Markdown of all pairs of which both sides are there."""
    lines = [
        "| network | attack | left by Unmask | by pyautoattack | forwards: Unmask | pyautoattack |",
        "|---|---|---|---|---|---|",
    ]
    for network in NETWORKS:
        for attack in ATTACKS:
            kept = [file_of(folder, network, attack, side) for side in SIDES]
            if not all(file.exists() for file in kept):
                continue
            mine, peer = (json.loads(file.read_text(encoding="utf-8")) for file in kept)
            left = " | ".join(f"{side['left'] / side['samples']:.1%}" for side in (mine, peer))
            asked = " | ".join(f"{side['forwards'] / side['right']:,.0f}" for side in (mine, peer))
            lines.append(
                f"| {network} ({mine['right'] / mine['samples']:.1%} clean) | {attack} | {left} | {asked} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
