"""The state of a training that is not finished: one file, whole or absent."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from unmask import interrupt
from unmask.errors import UserError
from unmask.results.atomic import replacing

__all__ = ["INTERVAL", "Checkpoint"]

_log = logging.getLogger(__name__)

INTERVAL = 30.0
"""Seconds between two checkpoints, unless told otherwise."""

_SHARE = 0.05
"""The share of a training's time that writing checkpoints may take."""


class Checkpoint:
    """Keeps the newest state of one training.

    Args:
        path: The file.
        interval: Seconds between two states; longer where writing one takes long.
    """

    def __init__(self, path: Path, interval: float = INTERVAL) -> None:
        self.path, self._interval = path, interval
        self._due = time.monotonic() + interval

    def load(self) -> dict[str, Any] | None:
        """The kept state, on the CPU; None where there is none, or where the file is damaged."""
        if not self.path.is_file():
            return None
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
        except Exception as error:
            # Whatever is wrong with the file, the training can start at the beginning.
            _log.warning("The checkpoint '%s' is damaged; training starts anew: %s", self.path, error)
            return None
        return state if isinstance(state, dict) else None

    def after_update(self, state: Callable[[], Mapping[str, Any]]) -> None:
        """Keep the state where it is due, or where the training is to end here.

        Raises:
            KeyboardInterrupt: Somebody asked for the end.
            UserError: The file cannot be written.
        """
        asked = interrupt.asked()
        if asked or time.monotonic() >= self._due:
            self.save(state())
        if asked:
            raise KeyboardInterrupt

    def save(self, state: Mapping[str, Any]) -> None:
        """Keep a state in the place of the one before.

        Raises:
            UserError: The file cannot be written.
        """
        started = time.monotonic()
        try:
            with replacing(self.path) as temporary:
                torch.save(dict(state), temporary)
        except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
            raise UserError(
                f"the checkpoint '{self.path}' cannot be written: {error}. Make room, or set UNMASK_CACHE "
                "to a folder on another disk."
            ) from error
        now = time.monotonic()
        self._due = now + max(self._interval, (now - started) / _SHARE)

    def remove(self) -> None:
        """The training is finished."""
        self.path.unlink(missing_ok=True)
