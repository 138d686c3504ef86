"""Results as labelled data: their layout, their file, the run folder, and the accessor ``ds.unmask``.

Importing this package registers the accessor.
"""

from __future__ import annotations

from unmask.results.accessor import UnmaskAccessor
from unmask.results.folder import RunFolder
from unmask.results.layout import AttackLabel, ModelLabel, Provenance, assemble
from unmask.results.outcome import CellOutcome, CleanOutcome
from unmask.results.storage import load, save

__all__ = [
    "AttackLabel",
    "CellOutcome",
    "CleanOutcome",
    "ModelLabel",
    "Provenance",
    "RunFolder",
    "UnmaskAccessor",
    "assemble",
    "load",
    "save",
]
