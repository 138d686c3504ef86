"""Small pieces of Markdown that the generated pages are made of."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["introduction", "linked", "row", "table"]

_PAPER = re.compile(r"\barXiv:(\d{4}\.\d{4,5})")
_CODE = re.compile(r"`[^`]*`|<")
_SECTION = re.compile(
    r"^(Args|Attributes|Returns|Raises|Yields|Example|Examples|Note|Notes):\s*$", re.MULTILINE
)


def row(cells: Sequence[str]) -> str:
    """One row of a table; angle brackets outside code are not taken for HTML."""
    texts = (
        _CODE.sub(lambda part: part[0] if part[0][0] == "`" else "&lt;", " ".join(c.split())) for c in cells
    )
    return "| " + " | ".join(text.replace("|", r"\|") for text in texts) + " |"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, or nothing where there are no rows."""
    body = [row(cells) for cells in rows]
    if not body:
        return ""
    return "\n".join([row(heads), row(["---"] * len(heads)), *body]) + "\n"


def linked(reference: str) -> str:
    """A reference whose arXiv numbers are links."""
    return _PAPER.sub(r"[arXiv:\1](https://arxiv.org/abs/\1)", reference)


def introduction(documented: Any) -> str:
    """What a docstring says before its sections, without the first sentence's line."""
    text = inspect.cleandoc(getattr(documented, "__doc__", None) or "")
    text = _SECTION.split(text, maxsplit=1)[0]
    _, _, rest = text.partition("\n\n")
    return rest.strip()
