"""One attack of a library as the tables list it, and the entries that makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from unmask.entries import Access, AttackEntry, Library, Search

__all__ = ["EVERY_NORM", "Listed", "entries_of"]

EVERY_NORM = ("linf", "l2", "l1")


def _names(names: str) -> tuple[str, ...]:
    return tuple(names.split())


@attrs.frozen
class Listed:
    """An attack of a library.

    Attributes:
        names: What the library calls it, the shortest name first; separated by spaces when given as text.
        summary: One sentence.
        reference: Its paper.
        norms: The norms it is made for.
        access: What it needs of the model.
        search: ``within`` where the library takes a radius, ``nearest`` where it minimises the distance.
        targeted: It has a targeted mode.
        needs: A package that it needs beyond the library.
        relative: Options that are this multiple of epsilon unless given, where the library has an absolute
            default: the same proportion as between the library's own defaults.
        defaults: Defaults for options that the library gives none.
    """

    names: tuple[str, ...] = attrs.field(converter=_names)
    summary: str
    reference: str
    norms: tuple[str, ...]
    access: Access = "gradients"
    search: Search = "within"
    targeted: bool = False
    needs: str = attrs.field(default="", kw_only=True)
    relative: Mapping[str, float] = attrs.field(factory=dict, kw_only=True)
    defaults: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)


def entries_of(library: Library, adapter: str, attacks: Iterable[Listed]) -> Iterator[AttackEntry]:
    """An entry for every name.

    Args:
        library: Whose attacks they are.
        adapter: The module whose object ``attacks`` builds them.
        attacks: Its attacks.
    """
    for listed in attacks:
        for name in listed.names:
            yield AttackEntry(
                name=name,
                summary=listed.summary,
                reference=listed.reference,
                build=f"{adapter}:attacks.{name}",
                library=library,
                norms=listed.norms,
                access=listed.access,
                search=listed.search,
                targeted=listed.targeted,
            )
