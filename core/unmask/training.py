"""What a training recipe is given and must do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch
    from torch import nn

    from unmask.data import LabelledImages

__all__ = ["Recipe"]


class Recipe(Protocol):
    """Trains a model in place. Same model, data and seed: same weights on the same machine."""

    def __call__(
        self,
        model: nn.Module,
        data: LabelledImages,
        *,
        seed: int,
        device: torch.device,
        progress: Callable[[str, int, int], None],
    ) -> None:
        """Train `model` on `data`; `progress(what, done, total)` is called as it goes.

        The model comes back in eval mode with every parameter's `requires_grad` as it was.
        """
        ...
