"""Models named by an option, such as the sources of a transfer attack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from torch import nn

__all__ = ["ModelReference", "ModelSelection"]


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


@attrs.frozen(eq=False)
class ModelSelection:
    """Some models of the run, which may depend on the model that is attacked.

    Attributes:
        references: Models by name, or the modules themselves; empty where a rule says which.
        rule: ``all``: every model of the run, the one attacked among them. ``leave-one-out``: all but that
            one.
    """

    references: tuple[ModelReference, ...] = ()
    rule: str | None = None

    def keys(self, attacked: str, run: Sequence[str]) -> list[str]:
        """What the doors of a cell know the models by; none where there are none.

        Args:
            attacked: The name of the model that is attacked.
            run: The names of all models of the run.
        """
        if self.rule is None:
            return [reference.key for reference in self.references]
        return [name for name in run if self.rule == "all" or name != attacked]

    @property
    def said(self) -> str | list[str]:
        """The option's value that means it."""
        names = [reference.name for reference in self.references]
        return self.rule or (names[0] if len(names) == 1 else names)
