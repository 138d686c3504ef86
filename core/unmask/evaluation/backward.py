"""Changes to the backward pass that the door makes: watching it, mending it, replacing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unmask.errors import UserError
from unmask.models.defended import Defended
from unmask.models.surrogates import surrogate_of

if TYPE_CHECKING:
    from unmask.evaluation.ledger import Ledger

__all__ = ["Replace", "Severed", "StraightThrough", "Watch"]


class Watch(torch.autograd.Function):
    """The identity that shows every gradient to the ledger."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, ledger: Ledger, rows: Tensor) -> Tensor:
        """The images; `rows` says which samples they belong to."""
        ctx.ledger, ctx.rows = ledger, rows
        return images.view_as(images)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """The gradient as it came."""
        ctx.ledger.saw_gradient(ctx.rows, gradients[0].detach())
        return gradients[0], None, None


class Severed(torch.autograd.Function):
    """Ties logits that carry no graph to their images, with the zero gradient that they have."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, images: Tensor) -> Tensor:
        """The logits."""
        ctx.shape = images.shape
        return logits.view_as(logits)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Zero for the images."""
        return None, gradients[0].new_zeros(ctx.shape)


class StraightThrough(torch.nn.Module):
    """A defended model whose front end is its declared surrogate for the backward pass, else the identity."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Logits [sample, class]."""
        inner = self.model
        while isinstance(inner, Defended):
            with torch.no_grad():
                shown = inner.front_end(images.clone())  # some work in place
            images = Replace.apply(shown, _stand_in(inner.front_end, images, shown))
            inner = inner.backbone
        logits: Tensor = inner(images)
        return logits


def _stand_in(front_end: torch.nn.Module, images: Tensor, shown: Tensor) -> Tensor:
    """What the backward pass takes for the front end."""
    surrogate = surrogate_of(front_end)
    stand_in = images if surrogate is None else surrogate(images)
    if stand_in.shape != shown.shape:
        what = (
            "its surrogate" if surrogate else "the identity, which stands for it where it has no surrogate,"
        )
        raise UserError(
            f"the front end {type(front_end).__name__} gives images of shape {tuple(shown.shape)}, but "
            f"{what} gives {tuple(stand_in.shape)}; give it a method `surrogate(images)` of the same shape."
        )
    return stand_in


class Replace(torch.autograd.Function):
    """The first argument's value with the second's gradient."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, stand_in: Tensor) -> Tensor:
        """The value."""
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """The gradient, to the stand-in."""
        return None, gradients[0]
