"""Reading one TOML table: every value with its type and its place, and no key left over."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from unmask.errors import MisuseError, UserError, suggestion

__all__ = ["Table", "below", "finite", "shown"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_REQUIRED: Any = object()


def below(where: str, key: str) -> str:
    """The key path of `key` in the table at `where`, quoted as TOML would."""
    part = key if _BARE_KEY.fullmatch(key) else '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{where}.{part}" if where else part


def shown(value: Any) -> str:
    """A value as TOML would write it, cut short."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, str):
        text = '"' + value.replace("\n", "\\n") + '"'
    elif isinstance(value, Mapping):
        text = "{" + ", ".join(f"{key} = {shown(v)}" for key, v in list(value.items())[:4]) + "}"
    elif isinstance(value, list):
        text = "[" + ", ".join(shown(v) for v in value[:4]) + (", ..." if len(value) > 4 else "") + "]"
    else:
        text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class Table:
    """A TOML table at its key path.

    Args:
        raw: What tomllib read.
        where: Its key path; ``""`` for the whole manifest.
        example: How to write it, for the message when it is no table.

    Raises:
        MisuseError: It is no table.
    """

    def __init__(self, raw: Any, where: str, example: str) -> None:
        if not isinstance(raw, Mapping):
            raise MisuseError(f"must be a table, such as {example}, not {shown(raw)}.", where=where)
        self.raw: Mapping[str, Any] = raw
        self.where = where

    def __contains__(self, key: str) -> bool:
        return key in self.raw

    def at(self, key: str) -> str:
        """The key path of a key of this table."""
        return below(self.where, key)

    def allow(self, known: Collection[str], elsewhere: Mapping[str, str] | None = None) -> None:
        """Refuse every key but these; `elsewhere` says where some other keys belong."""
        for key in self.raw:
            if key in known:
                continue
            if elsewhere and key in elsewhere:
                raise UserError(f"'{key}' does not belong here: {elsewhere[key]}", where=self.at(key))
            raise UserError(f"unknown key '{key}'. {suggestion(key, known)}", where=self.at(key))

    def options(self, taken: Collection[str]) -> dict[str, Any]:
        """Everything else: a component's own options, as the manifest spells them."""
        options = {key: value for key, value in self.raw.items() if key not in taken}
        for key, value in options.items():
            _refuse_underscores(key, value, self.at(key))
        return options

    def text(self, key: str, default: Any = _REQUIRED, *, among: Collection[str] | None = None) -> Any:
        """Text that is not blank."""
        value = self._get(key, default)
        if value is default and key not in self.raw:
            return value
        if not isinstance(value, str):
            raise MisuseError(f"must be text, not {shown(value)}.", where=self.at(key))
        if not value.strip():
            raise UserError(f"must not be blank, but is {shown(value)}.", where=self.at(key))
        if among is not None and value not in among:
            raise UserError(f"{shown(value)} is not known. {suggestion(value, among)}", where=self.at(key))
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.raw.get(key, default)
        if not isinstance(value, bool):
            raise MisuseError(f"must be true or false, not {shown(value)}.", where=self.at(key))
        return value

    def whole(self, key: str, default: Any, *, least: int, most: int = 2**63 - 1) -> Any:
        """A whole number within limits."""
        if key not in self.raw:
            return default
        value = self.raw[key]
        if isinstance(value, bool) or not isinstance(value, int):
            raise MisuseError(f"must be a whole number, not {shown(value)}.", where=self.at(key))
        if not least <= value <= most:
            limits = f"at least {least}" if value < least else f"at most {most}"
            raise UserError(f"must be {limits}, but is {shown(value)}.", where=self.at(key))
        return value

    def number(self, key: str, default: Any, *, above: float) -> Any:
        """A finite number above a limit."""
        if key not in self.raw:
            return default
        value = finite(self.raw[key], self.at(key))
        if value <= above:
            raise UserError(f"must be more than {above:g}, but is {shown(value)}.", where=self.at(key))
        return value

    def list(self, key: str, default: Any = _REQUIRED, *, example: str) -> Any:
        """A list of anything."""
        value = self._get(key, default)
        if not isinstance(value, list):
            raise MisuseError(f"must be a list, such as {example}, not {shown(value)}.", where=self.at(key))
        return value

    def _get(self, key: str, default: Any) -> Any:
        if key in self.raw:
            return self.raw[key]
        if default is _REQUIRED:
            close = suggestion(key, self.raw) if self.raw else "The table is empty."
            hint = f" {close.split('? ')[0]}?" if close.startswith("Did you mean") else ""
            raise UserError(f"the key '{key}' is missing.{hint}", where=self.where or None)
        return default


def finite(value: Any, where: str) -> float:
    """A finite number as a float.

    Raises:
        MisuseError: It is no number.
        UserError: It is NaN or infinite.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise MisuseError(f"must be a number, not {shown(value)}.", where=where)
    if not math.isfinite(value) or abs(value) > 1e300:
        raise UserError(f"must be a finite number, not {shown(value)}.", where=where)
    return float(value)


def _refuse_underscores(key: str, value: Any, where: str) -> None:
    """Manifests are hyphenated throughout; tables of components are followed, other tables are the user's."""
    if "_" in key:
        raise UserError(
            f"unknown key '{key}': manifests are spelled with hyphens. "
            f"Did you mean '{key.replace('_', '-')}'?",
            where=where,
        )
    for i, item in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(item, Mapping) and "use" in item:
            place = f"{where}[{i}]" if isinstance(value, list) else where
            for inner, held in item.items():
                _refuse_underscores(inner, held, below(place, inner))
