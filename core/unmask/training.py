"""What a training recipe is given and must do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:
    import torch
    from torch import nn

    from unmask.data import LabelledImages
    from unmask.models.checkpoint import Checkpoint
    from unmask.models.reference import ModelReference
    from unmask.models.training_log import TrainingLog

__all__ = ["Recipe", "TrainingContext"]


class Recipe(Protocol):
    """Trains a model in place. Same model, data and seed: same weights on the same machine.

    A recipe whose call has a parameter `context` besides is given a `TrainingContext`. One with a method
    ``why_not(model) -> str | None`` is asked before anything is trained whether it can train the model. One
    with ``sees_backbone = False`` trains a front end by itself; its result then serves before any backbone.
    """

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


@attrs.frozen(eq=False)
class TrainingContext:
    """What a recipe may use besides model and data; made without arguments it keeps and writes nothing.

    Attributes:
        models: Other models of the manifest that the recipe's options name; guests, not to be changed.
        checkpoint: Keeps the state of a training that is not finished yet.
        log: Takes the measurements.
    """

    models: Mapping[str, nn.Module] = attrs.field(factory=dict)
    checkpoint: Checkpoint | None = None
    log: TrainingLog | None = None

    def model(self, reference: ModelReference) -> nn.Module:
        """The model that an option names, or holds.

        Raises:
            UserError: There is no such model.
        """
        from unmask.errors import UserError, suggestion

        if reference.module is not None:
            return reference.module
        if reference.name not in self.models:
            raise UserError(
                f"there is no model '{reference.name}' here. {suggestion(reference.name, self.models)} "
                "In Python, give the module itself.",
            )
        return self.models[reference.name]

    def resumed(self) -> dict[str, Any] | None:
        """The state a training that was interrupted has kept; None: start at the beginning."""
        return None if self.checkpoint is None else self.checkpoint.load()

    def after_update(self, state: Callable[[], Mapping[str, Any]]) -> None:
        """Keep the state where it is time to, and end here where somebody asked for it.

        Args:
            state: Gives tensors and plain values, nested at will, from which the training goes on with the
                same result bit for bit.

        Raises:
            KeyboardInterrupt: The training is to end here; the state is kept.
        """
        if self.checkpoint is not None:
            self.checkpoint.after_update(state)

    def tell(self, **measured: float | int | None) -> None:
        """Write a line of measurements, such as ``step``, ``loss``, ``accuracy`` and ``seconds``."""
        if self.log is not None:
            self.log.write(measured)
