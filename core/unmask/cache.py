"""Where trained weights are kept, so that nothing is trained twice."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from unmask.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Cache", "cache_folder", "canonical_json", "key_of"]

_log = logging.getLogger(__name__)
_VARIABLE = "UNMASK_CACHE"

_PAUSE = 0.2
"""Seconds between two looks whether the other process is done."""


def cache_folder() -> Path:
    """The folder of the environment variable ``UNMASK_CACHE``, else the user's cache folder."""
    stated = os.environ.get(_VARIABLE)
    if stated:
        return Path(stated).expanduser().absolute()
    import platformdirs

    return platformdirs.user_cache_path("unmask", appauthor=False)


def canonical_json(value: Any) -> str:
    """One text for equal values: sorted keys, no spaces, finite numbers only.

    Raises:
        TypeError: Something JSON cannot say.
        ValueError: A number that is not finite.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def key_of(recipe: Mapping[str, Any]) -> str:
    """The name of a recipe's result: the sha256 of its canonical JSON, in hexadecimal digits."""
    return hashlib.sha256(canonical_json(recipe).encode()).hexdigest()


@attrs.frozen
class Cache:
    """Trained weights by the key of the recipe that made them.

    A file appears whole or not at all. Of two processes that want the same recipe trained, one trains and
    the other waits and takes its result; where the file system knows no locks both train, and write the same.

    Attributes:
        folder: Where the files are.
    """

    folder: Path = attrs.field(factory=lambda: cache_folder() / "trained", converter=Path)

    def path(self, key: str) -> Path:
        """The file of a key, whether it exists or not."""
        return self.folder / f"{key}.safetensors"

    def checkpoint(self, key: str) -> Path:
        """The file that holds the state of an unfinished training."""
        return self.folder / f"{key}.checkpoint"

    def log(self, key: str) -> Path:
        """The file with what the training measured, as JSON lines."""
        return self.folder / f"{key}.jsonl"

    @contextmanager
    def alone(self, key: str, waiting: Callable[[str], None]) -> Iterator[None]:
        """Within this block no other process trains what the key names.

        Args:
            key: Names the training.
            waiting: Told once, with who is waited for, where another process trains it.

        Raises:
            UserError: The folder cannot be written.
        """
        from unmask.results.lock import FileLock

        self.prepare()
        lock = FileLock(self.folder / f"{key}.lock")
        told = False
        try:
            while not lock.acquire():
                if not told:
                    waiting(lock.holder() or "another process")
                    told = True
                time.sleep(_PAUSE)
        except OSError as error:
            raise self._unusable(str(error)) from error
        try:
            yield
        finally:
            lock.release()

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.path(key).is_file()

    def load(self, key: str) -> dict[str, Tensor] | None:
        """The state dict kept under a key; None where there is none, or where the file is damaged."""
        from unmask.weights import read_state_dict

        if key not in self:
            return None
        try:
            return read_state_dict(self.path(key))
        except UserError as error:
            _log.warning("The kept weights are damaged and will be trained again: %s", error)
            return None

    def store(self, key: str, state: Mapping[str, Tensor], recipe: Mapping[str, Any]) -> Path:
        """Keep a state dict, with the recipe that made it written inside the file.

        Raises:
            UserError: The folder cannot be written.
        """
        from unmask.weights import save_weights

        self.prepare()
        return save_weights(state, self.path(key), metadata={"recipe": canonical_json(recipe)})

    def prepare(self) -> None:
        """Make the folder; called before a training, whose result would otherwise be lost.

        Raises:
            UserError: The folder cannot be made or written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            writable = os.access(self.folder, os.W_OK)
        except OSError as error:
            raise self._unusable(str(error)) from error
        if not writable:
            raise self._unusable("it is read-only")

    def _unusable(self, why: str) -> UserError:
        return UserError(
            f"trained weights cannot be kept in '{self.folder}' ({why}). "
            f"Set {_VARIABLE} to a folder that can be written."
        )
