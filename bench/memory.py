"""Peak memory, each contestant in a process of its own."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import torch

from bench import ours, peers
from bench.setting import Setting
from unmask_plugins.attacks.pgd import PGD

SAMPLES, STEPS = 256, 5


def used(setting: Setting, mine: bool) -> int:
    """Bytes above what was held when the attack began."""
    model = setting.model()
    images, labels = setting.samples_of(model, SAMPLES)
    search = ours.Search(model, images, labels)
    # What the first call sets up once belongs to neither.
    peers.bare_pgd(model, images[:16], labels[:16], 1)
    if setting.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.max_memory_allocated()
    else:
        before = _peak()
    if mine:
        search.run(PGD(steps=STEPS))
    else:
        peers.bare_pgd(model, images, labels, STEPS)
    if setting.device.type == "cuda":
        return torch.cuda.max_memory_allocated() - before
    return _peak() - before


def _peak() -> int:
    """The most memory that this process has held.

    `getrusage` would begin with what the process held that started this one.
    """
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def compared(setting: Setting) -> tuple[int, int]:
    """Of ours, and of the bare loop."""
    found = []
    for mine in (True, False):
        code = (
            "import pathlib, torch; from bench import memory, setting; torch.set_num_threads("
            f"{torch.get_num_threads()}); data = {str(setting.data) if setting.data else ''!r}; "
            f"s = setting.Setting(torch.device({str(setting.device)!r}), 1, 1, "
            f"pathlib.Path(data) if data else None); print(memory.used(s, {mine}))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        found.append(int(done.stdout.split()[-1]))
    return found[0], found[1]
