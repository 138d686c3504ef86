"""What a docstring says of each parameter, in any of the styles that libraries write."""

from __future__ import annotations

import inspect
import re

__all__ = ["documented_parameters"]

_FIELD = re.compile(r":param\s+(?:\S+\s+)?(\w+):\s*(.*)")
_HEADINGS = {"args:", "arguments:", "parameters:", "attributes:"}
_UNDERLINED = {"parameters", "args", "arguments", "attributes"}
_ENTRY = re.compile(r"(\w+)\s*(?:\(([^)]*)\))?\s*:\s*(.*)")


def documented_parameters(docstring: str | None) -> dict[str, tuple[str, str]]:
    """The type, ``""`` where none is told, and the text of every parameter that a docstring describes.

    Google's sections, NumPy's underlined ones and Sphinx's fields are understood.
    """
    if not docstring:
        return {}
    lines = inspect.cleandoc(docstring).splitlines()
    found = _fields(lines) or _indented(lines) or _underlined(lines)
    return {name: (kind.strip(), " ".join(text.split())) for name, (kind, text) in found.items()}


def _fields(lines: list[str]) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    current: str | None = None
    for line in lines:
        stripped = line.strip()
        if match := _FIELD.match(stripped):
            current = match[1]
            found[current] = ("", match[2])
        elif stripped.startswith(":") or not stripped:
            current = None
        elif current is not None:
            found[current] = ("", f"{found[current][1]} {stripped}")
    return found


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _indented(lines: list[str]) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    inside, outer, inner = False, 0, 0
    current: str | None = None
    for line in lines:
        stripped = line.strip()
        if stripped.lower() in _HEADINGS:
            inside, outer, inner, current = True, _depth(line), 0, None
        elif inside and stripped:
            depth = _depth(line)
            if depth <= outer:
                inside = False
                continue
            inner = inner or depth
            match = _ENTRY.match(stripped)
            if depth == inner and match:
                current = match[1]
                found[current] = (match[2] or "", match[3])
            elif current is not None:
                kind, text = found[current]
                found[current] = (kind, f"{text} {stripped}")
    return found


def _underlined(lines: list[str]) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    inside = False
    current: str | None = None
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        stripped = line.strip()
        if following.strip() and not following.strip().strip("-"):
            inside, current = stripped.lower() in _UNDERLINED, None
        elif inside and stripped and stripped.strip("-"):
            name, colon, kind = stripped.partition(" : ")
            if _depth(line) == 0 and colon:
                current = name
                found[current] = (kind, "")
            elif current is not None:
                kind, text = found[current]
                found[current] = (kind, f"{text} {stripped}")
    return found
