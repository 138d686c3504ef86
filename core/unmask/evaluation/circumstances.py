"""Where and with what an evaluation was computed, for its result file."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

import torch

from unmask.plugins.catalog import Catalog

__all__ = ["computed_on", "plugins_used", "versions"]

_DISTRIBUTIONS = ("torch", "torchvision", "timm", "numpy", "scipy", "xarray", "netCDF4", "pluggy", "attrs")


def computed_on(device: torch.device) -> dict[str, Any]:
    """The machine and how it was set to compute, as JSON; nothing that names a person or a place."""
    found: dict[str, Any] = {
        "system": platform.system(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "kernels": os.environ.get("UNMASK_KERNELS", "") or "auto",
        "deterministic-algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32-matmul": torch.get_float32_matmul_precision(),
    }
    if device.type == "cuda":
        found["device"] = torch.cuda.get_device_name(device)
        found["cuda"] = torch.version.cuda
        found["cudnn"] = torch.backends.cudnn.version()
        found["tf32-convolutions"] = torch.backends.cudnn.allow_tf32
    else:
        found["device"] = platform.processor() or platform.machine()
        found["instructions"] = torch.backends.cpu.get_cpu_capability()
    return found


def plugins_used(catalog: Catalog) -> list[dict[str, str]]:
    """Every plugin in working order with its distribution and version, and those that failed, as JSON."""
    found = [
        {"name": plugin.name, "distribution": plugin.distribution, "version": plugin.version}
        for plugin in catalog.plugins
    ]
    failed = [
        {"name": f.name, "distribution": f.distribution, "version": f.version, "failed": f.cause}
        for f in catalog.failures
    ]
    return [*found, *failed]


def versions() -> dict[str, str]:
    """Of Python and of everything that computes, by name."""
    found = {"python": platform.python_version(), "unmask": metadata.version("unmask")}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
