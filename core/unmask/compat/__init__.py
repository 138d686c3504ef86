"""Other tools' interfaces over this framework, so that existing scripts change one import."""

from __future__ import annotations

from unmask.compat.autoattack import AutoAttack

__all__ = ["AutoAttack"]
