"""Progress for machines and for log files: one line for each event."""

from __future__ import annotations

import datetime
import json
import threading
import time
from collections.abc import Mapping
from typing import Any, Literal, TextIO

from unmask.crashes import news

__all__ = ["LOGS", "Log", "LogView"]

Log = Literal["text", "json"]
LOGS: tuple[str, ...] = ("text", "json")


class LogView:
    """Training and evaluation as lines; satisfies `unmask.evaluation.progress.Progress`.

    Steps are not told: a line for each would drown the rest.

    Args:
        kind: ``json``: an object a line, with `time` and `event`; ``text``: the same in words.
        stream: Where the lines go.
    """

    def __init__(self, kind: Log, stream: TextIO) -> None:
        self._kind, self._stream = kind, stream
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._cells = self._done = self._broken = self._forwards = self._computed = 0

    def train(self, what: str, done: int, total: int) -> None:
        """A model is trained; told at the start and at the end."""
        if done >= total or done <= 1:
            self._tell("training", f"training {what}: {done} of {total}", what=what, done=done, total=total)

    def begin(self, cells: int) -> None:
        """The evaluation starts."""
        self._cells, self._started = cells, time.monotonic()
        self._tell("begin", f"{cells} cells", cells=cells)

    def cell(self, model: str, attack: str, epsilon: float) -> None:
        """A cell starts."""
        self._tell(
            "cell",
            f"{attack} on {model}, epsilon {epsilon:.6g}",
            model=model,
            attack=attack,
            epsilon=None if epsilon == float("inf") else epsilon,
        )

    def step(self, done: int, total: int, standing: int) -> None:
        """Nothing."""

    def finished(self, *, reused: bool, broken: int = 0, forwards: int = 0) -> None:
        """A cell ended."""
        with self._lock:
            self._done += 1
            self._computed += not reused
            self._broken += broken
            self._forwards += forwards
        spent = time.monotonic() - self._started
        left = spent / self._computed * (self._cells - self._done) if self._computed else None
        facts = {
            "done": self._done,
            "cells": self._cells,
            "reused": reused,
            "broken": self._broken,
            "forwards_per_second": round(self._forwards / max(spent, 1e-3), 1),
            "seconds": round(spent, 3),
            "seconds_left": None if left is None else round(left, 1),
        }
        when = "" if left is None else f", about {left:.0f} s left"
        self._tell(
            "finished",
            f"{self._done} of {self._cells} cells, {self._broken} samples broken, "
            f"{facts['forwards_per_second']} forwards/s{when}",
            **facts,
        )

    def say(self, message: str) -> None:
        """Something worth knowing."""
        self._tell("note", message, message=message)

    def warn(self, message: str) -> None:
        """Something the user should know; told once."""
        if news(message):
            self._tell("warning", f"warning: {message}", message=message)

    def error(self, message: str) -> None:
        """The run cannot go on."""
        self._tell("error", f"error: {message}", message=message)

    def interrupted(self, message: str) -> None:
        """The run was interrupted."""
        self._tell("interrupted", message, message=message)

    def _tell(self, event: str, words: str, **facts: Any) -> None:
        line = as_line(self._kind, event, words, facts)
        with self._lock:
            self._stream.write(line)
            self._stream.flush()


def as_line(kind: Log, event: str, words: str, facts: Mapping[str, Any]) -> str:
    """One event as a line."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    if kind == "json":
        return json.dumps({"time": now, "event": event, **facts}) + "\n"
    return f"{now} {words}\n"
