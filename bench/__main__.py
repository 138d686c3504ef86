"""``python -m bench``: the table, or some of its rows."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("rows", nargs="*", help="rows to measure; all when none is named (--list)")
    parser.add_argument("--data", type=Path, help="folder with images and weights; see README.md")
    parser.add_argument(
        "--device", default="cpu", help="on an accelerator: the short form, unless rows are named"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1, help="on the CPU")
    parser.add_argument("--short", action="store_true", help="the short form, on the CPU too")
    parser.add_argument("--scale", type=int, default=1, help="divides the short form's numbers of images")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    asked = parser.parse_args(arguments)

    os.environ.setdefault("OMP_NUM_THREADS", str(asked.threads))
    import torch

    from bench.accelerated import short_form
    from bench.rows import ROWS
    from bench.setting import NotHereError, Setting

    if asked.list:
        for name, row in ROWS.items():
            print(f"{name:24} {(row.__doc__ or '').splitlines()[0]}")
        return 0
    unknown = [name for name in asked.rows if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {unknown[0]!r}; rows: {', '.join(ROWS)}")
    torch.set_num_threads(asked.threads)
    device = torch.device(asked.device)
    setting = Setting(device, asked.repeats, asked.samples, asked.data)
    print(f"{_machine(torch, device)}; {asked.threads} thread(s), {asked.repeats} repeats\n")
    print("| measure | found | must be | | figures |\n|---|---|---|---|---|")
    missed = False

    def show(found: object) -> None:
        nonlocal missed
        missed |= not found.met  # type: ignore[attr-defined]
        print(
            f"| {found.measure} | {found.value} | {found.target} | "  # type: ignore[attr-defined]
            f"{'met' if found.met else 'NOT MET'} | {found.detail} |",  # type: ignore[attr-defined]
            flush=True,
        )

    if asked.short or (device.type != "cpu" and not asked.rows):
        for found in short_form(setting, scale=asked.scale):
            show(found)
        return int(missed)
    for name in asked.rows or ROWS:
        try:
            for found in ROWS[name](setting):
                show(found)
        except NotHereError as missing:
            print(f"| {name} | - | | not measured | {missing} |", flush=True)
    return int(missed)


def _machine(torch: object, device: object) -> str:
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    if getattr(device, "type", "cpu") == "cuda":
        name = torch.cuda.get_device_name(device)  # type: ignore[attr-defined]
    return f"{name}, {os.cpu_count()} cores, PyTorch {torch.__version__}, Python {platform.python_version()}"  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main())
