"""A classifier of the user's own, named by where it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from unmask.errors import MisuseError
from unmask_plugins.models.factory import made_by
from unmask_plugins.models.preprocessing import Normalize, put_before

__all__ = ["module"]


def module(
    factory: str,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    **options: Any,
) -> nn.Module:
    """Whatever `factory` returns, in eval mode.

    The factory is looked for beside the manifest first (``nets.py``, or ``nets/small.py`` for
    ``nets.small``), then among what is installed.

    Args:
        factory: ``"package.module:callable"``; the callable may lie deeper, as in ``"nets:Zoo.small"``.
        mean: Subtracted from each channel of the images before they reach the model. Where the callable has a
            parameter of this name, it gets it instead.
        std: Each channel is divided by it; the same holds.
        options: Passed on to it.

    Returns:
        A module from images [sample, channel, height, width] in [0, 1] to logits [sample, class].

    Raises:
        UserError: There is no such module or attribute, its import or the call raises.
        MisuseError: The attribute is not callable, or returns something else than an `nn.Module`.
    """
    built, normalisation = made_by(factory, options, {"mean": mean, "std": std})
    if not isinstance(built, nn.Module):
        raise MisuseError(
            f"'{factory}' returned {type(built).__name__}, not a torch.nn.Module.", where="factory"
        )
    values = [value for value in normalisation.values() if value is not None]
    if values:
        channels = max(len(value) for value in values)
        put_before(built, Normalize(normalisation.get("mean"), normalisation.get("std"), channels))
    return built.eval()
