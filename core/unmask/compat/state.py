"""AutoAttack's state file: which samples still stand, and which attacks have been run."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs

from unmask.errors import UserError
from unmask.results.atomic import replacing

__all__ = ["EvaluationState", "looks_like_state"]

_SAVE_TIMEOUT = 60
"""Seconds, as in the files that AutoAttack writes; it has no meaning for readers."""


def looks_like_state(content: Any) -> bool:
    """Whether JSON is that of a state file."""
    return isinstance(content, Mapping) and "_robust_flags" in content and "_attacks_to_run" in content


@attrs.frozen
class EvaluationState:
    """The state of an evaluation by AutoAttack.

    Attributes:
        attacks_to_run: The attacks of the evaluation.
        run_attacks: Those of them that are done, in their order where it is known.
        robust_flags: Which samples still stand; None before the clean ones were looked at.
        clean_accuracy: The share that was right without an attack; NaN where it is not told.
    """

    attacks_to_run: frozenset[str]
    run_attacks: tuple[str, ...] = ()
    robust_flags: tuple[bool, ...] | None = None
    clean_accuracy: float = math.nan

    @classmethod
    def read(cls, path: Path) -> EvaluationState:
        """The state in a file.

        Raises:
            UserError: It cannot be read, or is no state file.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"cannot be read: {error}.", file=str(path)) from error
        return cls.from_json(content, str(path))

    @classmethod
    def from_json(cls, content: Any, file: str) -> EvaluationState:
        """The state in a file's content.

        Args:
            content: Its JSON.
            file: Its name, for messages.

        Raises:
            UserError: It is no state file, or a damaged one.
        """
        if not looks_like_state(content):
            raise UserError(
                "is no state file of AutoAttack: it has no '_robust_flags' and '_attacks_to_run'.", file=file
            )
        flags = content["_robust_flags"]
        if flags is not None and not (
            isinstance(flags, list) and flags and all(isinstance(flag, bool) for flag in flags)
        ):
            raise UserError("'_robust_flags' must be a list of true and false.", file=file)
        clean = content.get("_clean_accuracy", math.nan)
        if (
            isinstance(clean, bool)
            or not isinstance(clean, int | float)
            or not (math.isnan(clean) or 0 <= clean <= 1)
        ):
            raise UserError(f"'_clean_accuracy' must be a fraction, not {clean!r}.", file=file)
        return cls(
            attacks_to_run=frozenset(_names(content, "_attacks_to_run", file)),
            run_attacks=tuple(_names(content, "_run_attacks", file)),
            robust_flags=None if flags is None else tuple(flags),
            clean_accuracy=float(clean),
        )

    def write(self, path: Path) -> None:
        """Write it, whole or not at all."""
        content = {
            "_attacks_to_run": sorted(self.attacks_to_run),
            "path": str(path),
            "_run_attacks": list(self.run_attacks),
            "_robust_flags": None if self.robust_flags is None else list(self.robust_flags),
            "_last_saved": str(datetime.now()),
            "_SAVE_TIMEOUT": _SAVE_TIMEOUT,
            "_clean_accuracy": self.clean_accuracy,
        }
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(content), encoding="utf-8")


def _names(content: Mapping[str, Any], key: str, file: str) -> list[str]:
    """A list of names; AutoAttack writes a set as the text that Python prints of it."""
    value = content.get(key, [])
    if isinstance(value, str):
        try:
            value = sorted(ast.literal_eval(value)) if value != "set()" else []
        except (ValueError, SyntaxError, TypeError):
            value = None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UserError(f"'{key}' must be a list of names.", file=file)
    return value
