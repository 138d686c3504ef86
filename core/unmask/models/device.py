"""Where to compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from unmask.errors import UserError

__all__ = ["choose_device", "placed_on"]


def choose_device(name: str | None = None, where: str = "device") -> torch.device:
    """The device of this name; the first GPU, else the CPU, when None.

    Raises:
        UserError: There is no such device, or this machine has none.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"'{name}' is no device. Write cpu, cuda, cuda:0 or mps.", where=where) from error
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"'{name}' cannot be used on this machine ({reason}). Leave it out to take the best there is.",
            where=where,
        ) from error
    return device


@contextmanager
def placed_on(models: Sequence[nn.Module], device: str | torch.device | None) -> Iterator[None]:
    """Models on a device for a while; each goes back to where it was."""
    if device is None:
        yield
        return
    place = choose_device(str(device))
    homes = []
    for model in models:
        devices = {tensor.device for tensor in [*model.parameters(), *model.buffers()]}
        homes.append(devices.pop() if len(devices) == 1 else None)
        if devices and len(devices) > 1:
            raise UserError("a model lies on several devices; leave the device out.", where="device")
    try:
        for model in models:
            model.to(place)
        yield
    finally:
        for model, home in zip(models, homes, strict=True):
            if home is not None:
                model.to(home)
