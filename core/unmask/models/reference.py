"""A model named by an option, such as the source of a transfer attack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from torch import nn

__all__ = ["ModelReference"]


@attrs.frozen(eq=False)
class ModelReference:
    """Another model: by its name in the run, or the module itself.

    Attributes:
        name: The name in the run; for a module, what it is called in settings.
        module: The model, when it is not one of the run.
    """

    name: str = "given model"
    module: nn.Module | None = None

    @property
    def key(self) -> str:
        """What the door of a cell knows it by."""
        return self.name if self.module is None else f"{self.name} {id(self.module)}"
