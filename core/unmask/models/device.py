"""Where to compute."""

from __future__ import annotations

import torch

from unmask.errors import UserError

__all__ = ["choose_device"]


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
