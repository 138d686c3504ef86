"""What can go wrong, in words: every error a user can cause says where, what and how to mend it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["MisuseError", "PluginError", "UnsavedError", "UserError", "in_words", "nearest", "suggestion"]


class UserError(ValueError):
    """The user's input is wrong: exit status 2, one paragraph, no traceback.

    The message names the file (when there is one), the key path, the value and the way out.

    Args:
        message: What is wrong and what to do, in full sentences.
        where: The key path or argument at fault, such as ``attacks.pgd.steps``.
        file: The file at fault, if any.
    """

    def __init__(self, message: str, *, where: str | None = None, file: str | None = None) -> None:
        self.message = message
        self.where = where
        self.file = file
        place = ": ".join(part for part in (file, where) if part)
        super().__init__(f"{place}: {message}" if place else message)

    def located(self, *, where: str | None = None, file: str | None = None) -> UserError:
        """The same error, placed in a file or below a key path where it did not yet say so."""
        path = self.where
        if where is not None:
            path = f"{where}.{self.where}" if self.where else where
        return type(self)(self.message, where=path, file=self.file or file)


class MisuseError(UserError, TypeError):
    """As `UserError`, for a value of the wrong type."""


class PluginError(UserError):
    """A plugin could not be loaded, clashes with another, or registers something malformed."""


class UnsavedError(UserError):
    """A run is done, but there is no room (or no right) to write all of it: exit status 3.

    Attributes:
        results: The run's result, an ``xarray.Dataset``, so that nothing is lost.
    """

    def __init__(self, message: str, *, file: str | None, results: object) -> None:
        super().__init__(message, file=file)
        self.results = results

    def located(self, *, where: str | None = None, file: str | None = None) -> UnsavedError:
        """Itself: it names its place already."""
        return self


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to `name`, or None when nothing is close."""
    by_spelling: dict[str, str] = {}
    for each in known:
        by_spelling.setdefault(_plain(each), each)
    found = difflib.get_close_matches(_plain(name), list(by_spelling), n=1, cutoff=0.5)
    return by_spelling[found[0]] if found else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def suggestion(name: str, known: Iterable[str]) -> str:
    """A sentence that names the closest known name and all of them, such as ``Did you mean 'pgd'?``."""
    names = sorted(known)
    close = nearest(name, names)
    listing = ", ".join(names) if names else "none"
    return (f"Did you mean '{close}'? " if close else "") + f"Known: {listing}."


_LONGEST = 1000
"""Characters of what somebody else's exception says that are told."""


def in_words(cause: BaseException) -> str:
    """What an exception of somebody else's code says, after its kind; fit to be printed and kept."""
    try:
        said = str(cause)
    except Exception:
        said = "what it says cannot be read"
    kind = type(cause).__name__
    if len(said) > _LONGEST:
        said = f"{said[:_LONGEST]}... ({len(said):,} characters)"
    # Lone surrogates cannot be encoded, and zeros end a text in files.
    said = said.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return f"{kind}: {said}" if said else kind
