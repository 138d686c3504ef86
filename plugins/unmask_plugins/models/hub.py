"""What went wrong where a library builds a model and may fetch its weights."""

from __future__ import annotations

from unmask.errors import UserError

__all__ = ["not_built"]

_REFUSALS = (TypeError, ValueError, RuntimeError, AssertionError, KeyError, NotImplementedError)
"""What the libraries raise for options that do not fit; anything else comes from the way to the hub."""


def not_built(what: str, error: Exception, *, fetches: bool) -> UserError:
    """The user's error behind a failure to build.

    Args:
        what: The model, such as ``timm's 'resnet18'``.
        error: What was raised.
        fetches: Weights were asked for that may have to be downloaded.
    """
    cause = " ".join(str(error).split()) or "without a message"
    cause = cause if len(cause) <= 300 else f"{cause[:297]}..."
    if fetches and not isinstance(error, _REFUSALS):
        return UserError(
            f"the pretrained weights of {what} are not in the local cache and could not be fetched "
            f"({type(error).__name__}: {cause.rstrip('.')}). Connect to the network, fetch them on another "
            "machine and name the file under 'weights', or leave 'pretrained' out.",
            where="pretrained",
        )
    return UserError(f"{what} cannot be built with these options: {type(error).__name__}: {cause}")
