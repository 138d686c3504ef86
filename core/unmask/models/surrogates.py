"""What stands for a front end in the backward pass of BPDA."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from unmask.entries import Entry, FrontEndEntry

__all__ = ["declare_surrogate", "surrogate_of"]


def surrogate_of(front_end: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """The front end's own differentiable stand-in, images to images; None: the identity.

    A front end declares it as a method ``surrogate(images)``, or its entry does.
    """
    found = getattr(front_end, "surrogate", None)
    return found if callable(found) else None


def declare_surrogate(front_end: nn.Module, entry: Entry) -> None:
    """Give a freshly built front end the surrogate of its entry, unless it has one of its own."""
    if isinstance(entry, FrontEndEntry) and entry.surrogate is not None and surrogate_of(front_end) is None:
        # Past nn.Module's own bookkeeping: a surrogate that is a module is no part of what is evaluated.
        object.__setattr__(front_end, "surrogate", entry.surrogate)
