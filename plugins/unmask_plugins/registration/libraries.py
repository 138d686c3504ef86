"""The attacks of other libraries: tables that name them, whether or not the library is installed."""

from __future__ import annotations

from collections.abc import Iterator

from unmask.entries import AttackEntry
from unmask_plugins.adapters import libraries
from unmask_plugins.adapters.listed import adv_lib, art, cleverhans, foolbox, torchattacks
from unmask_plugins.adapters.listing import entries_of

__all__ = ["attacks_of_libraries"]

_ADAPTERS = "unmask_plugins.adapters"


def attacks_of_libraries() -> Iterator[AttackEntry]:
    """Found as ``library:name``, such as ``foolbox:LinfPGD``."""
    yield from entries_of(libraries.FOOLBOX, f"{_ADAPTERS}.foolbox", foolbox.ATTACKS)
    yield from entries_of(libraries.TORCHATTACKS, f"{_ADAPTERS}.torchattacks", torchattacks.ATTACKS)
    yield from entries_of(libraries.ART, f"{_ADAPTERS}.art", art.ATTACKS)
    yield from entries_of(libraries.ADV_LIB, f"{_ADAPTERS}.adv_lib", adv_lib.ATTACKS)
    yield from entries_of(libraries.CLEVERHANS, f"{_ADAPTERS}.cleverhans", cleverhans.ATTACKS)
