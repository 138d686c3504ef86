"""What every recipe owes to the rest of the program: nothing changes but the weights it trains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from unmask.data import LabelledImages
from unmask.errors import UserError
from unmask.models.defended import Defended

__all__ = ["check_loss", "parameters_to_train", "training_alone", "updates_in", "would_change_backbone"]


def updates_in(epochs: int, data: LabelledImages, batch: int) -> int:
    """How many updates so many epochs have, the last batch of an epoch being what is left.

    Raises:
        UserError: There are no images.
    """
    if len(data) == 0:
        raise UserError("there are no images to train on.", where="data")
    return epochs * -(-len(data) // batch)


def would_change_backbone(recipe: str, model: nn.Module) -> str | None:
    """Why a recipe for whole models cannot train this one: it has a front end; None: it has none."""
    if not isinstance(model, Defended):
        return None
    return (
        f"the recipe '{recipe}' trains whole models and would change the backbone. Train a front end by "
        "'front-end' or 'denoising', and the backbone by a recipe of its own."
    )


def parameters_to_train(module: nn.Module, what: str) -> list[nn.Parameter]:
    """The parameters that require a gradient.

    Raises:
        UserError: There are none.
    """
    found = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not found:
        raise UserError(f"the {what} has no parameter that requires a gradient: nothing to train.")
    return found


@contextmanager
def training_alone(model: nn.Module, seed: int, device: torch.device) -> Iterator[torch.Generator]:
    """Train within: reproducible for `seed`, and without a trace outside of the weights.

    Global random states are put back; layers such as dropout draw from a stream seeded by `seed`. On the
    way out, also by an error, the model is in eval mode, has no gradients, and every parameter's
    `requires_grad` is what it was.

    Yields:
        A CPU generator seeded by `seed`, for orders and starting points.
    """
    model.to(device)
    wanted = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    forked = [device] if device.type == "cuda" else []
    try:
        with (
            torch.random.fork_rng(devices=forked),
            torch.backends.cudnn.flags(benchmark=False, deterministic=True),
            torch.enable_grad(),
        ):
            torch.manual_seed(seed)
            yield torch.Generator().manual_seed(seed)
    finally:
        model.eval()
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(wanted[name])
            parameter.grad = None


def check_loss(loss: float, update: int) -> None:
    """Stop when training has diverged.

    Raises:
        UserError: The loss is infinite or NaN.
    """
    if not abs(loss) < float("inf"):
        raise UserError(
            f"training diverged: the loss is {loss} after {update} updates. Lower `rate`, or look for "
            "non-finite values in the data.",
            where="rate",
        )
