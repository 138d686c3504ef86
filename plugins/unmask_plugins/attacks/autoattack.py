"""AutoAttack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeGuard, get_args

import attrs

from unmask.components import ConfiguredAttack, as_configured
from unmask_plugins.attacks.apgd import APGD
from unmask_plugins.attacks.fab import FAB, TargetedFAB
from unmask_plugins.attacks.reference import ReferenceStage, find_reference
from unmask_plugins.attacks.square import Square

__all__ = ["AutoAttack", "StageName", "Version"]

Version = Literal["standard", "plus", "rand", "rand+square", "custom"]
StageName = Literal["apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "square"]

STAGES: Mapping[str, tuple[StageName, ...]] = {
    "standard": ("apgd-ce", "apgd-t", "fab-t", "square"),
    "plus": ("apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t"),
    "rand": ("apgd-ce", "apgd-dlr"),
    "rand+square": ("apgd-ce", "apgd-dlr", "square"),
}
"""The stages of every version, in order."""

_DRAWS = 20
"""Draws of the versions for randomised models."""


def _native(stage: StageName, version: Version, norm: str) -> Any:
    """A stage with the settings that the version has for it."""
    # l1 is set apart in the standard version alone (Croce & Hein 2021, section 5).
    l1 = norm == "l1" and version in ("standard", "custom")
    random = version in ("rand", "rand+square")
    untargeted = APGD(
        restarts=5 if version == "plus" or l1 else 1, eot=_DRAWS if random else 1, multi_epsilon=l1
    )
    made: Mapping[str, Callable[[], Any]] = {
        "apgd-ce": lambda: attrs.evolve(untargeted, loss="ce"),
        "apgd-dlr": lambda: attrs.evolve(untargeted, loss="dlr"),
        "apgd-t": lambda: APGD(loss="dlr", targets=5 if l1 else 9, multi_epsilon=l1),
        "fab": lambda: FAB(restarts=5),
        "fab-t": lambda: TargetedFAB(targets=9),
        "square": lambda: Square(queries=5000, eot=_DRAWS if random else 1),
    }
    return made[stage]()


@attrs.frozen
class AutoAttack:
    """AutoAttack (Croce & Hein 2020, "Reliable evaluation ..."): parameter-free attacks, one after the other.

    Each stage works on what those before it left standing. The limits ``max-queries`` and ``timeout`` hold
    for each stage. FAB searches within the radius here and stops at its first success, as in the paper.

    Attributes:
        version: ``standard``: APGD-CE, APGD-T, FAB-T, Square. ``plus``: APGD-CE, APGD-DLR and FAB with five
            restarts each, Square, APGD-T, FAB-T. ``rand``: APGD-CE and APGD-DLR averaged over 20 draws, for
            randomised models. ``rand+square``: Square, likewise averaged, besides. ``custom``: `attacks`.
        attacks: What the version ``custom`` runs, in order: names of stages (``apgd-ce``, ``apgd-dlr``,
            ``apgd-t``, ``fab``, ``fab-t``, ``square``) or any attacks.
        engine: ``native``: the project's own attacks. ``reference``: those of the distribution pyautoattack,
            or of autoattack where that is installed, one sample at a time.
    """

    version: Version = attrs.field(default="standard", validator=attrs.validators.in_(get_args(Version)))
    attacks: Sequence[StageName | ConfiguredAttack] = attrs.field(default=(), converter=tuple)
    engine: Literal["native", "reference"] = attrs.field(
        default="native", validator=attrs.validators.in_(("native", "reference"))
    )

    def __attrs_post_init__(self) -> None:
        if bool(self.attacks) != (self.version == "custom"):
            raise ValueError(
                "attacks must name at least one attack when version is 'custom'"
                if self.version == "custom"
                else f"attacks is for version 'custom'; version '{self.version}' has its own"
            )
        if self.engine == "reference":
            find_reference()
            if self.version == "rand+square":
                raise ValueError("version 'rand+square' is not known to the reference; use engine 'native'")
            for attack in self.attacks:
                if not _is_stage(attack):
                    raise ValueError(
                        "attacks must be names of the reference's stages with engine 'reference': "
                        f"{', '.join(get_args(StageName))}; not {_called(attack)}"
                    )

    def stages(self, norm: str) -> Mapping[str, ConfiguredAttack]:
        """The attacks by name, in order; a name that occurs again gets a number."""
        found: dict[str, ConfiguredAttack] = {}
        for attack in self.attacks or STAGES[self.version]:
            name = unnumbered = _called(attack)
            number = 1
            while name in found:
                number += 1
                name = f"{unnumbered}-{number}"
            found[name] = self._stage(attack, norm)
        return found

    def _stage(self, attack: StageName | ConfiguredAttack, norm: str) -> ConfiguredAttack:
        if not _is_stage(attack):
            return as_configured(attack)
        if self.engine == "reference":
            return _reference(attack, self.version)
        configured = as_configured(_native(attack, self.version, norm))
        return attrs.evolve(configured, entry=attrs.evolve(configured.entry, search="within"))


def _reference(stage: StageName, version: Version) -> ConfiguredAttack:
    """A stage of the published AutoAttack."""
    settings = "standard" if version == "custom" else version
    made = ReferenceStage(stage, settings)
    options = {"engine": "reference", "stage": stage, "version": settings, "reference": find_reference()[1]}
    suite = as_configured(AutoAttack())
    access: Literal["scores", "gradients"] = "scores" if stage == "square" else "gradients"
    entry = attrs.evolve(suite.entry, access=access, targeted=False)
    return attrs.evolve(suite, attack=made, entry=entry, options=options)


def _is_stage(attack: Any) -> TypeGuard[StageName]:
    return isinstance(attack, str) and attack in get_args(StageName)


def _called(attack: StageName | ConfiguredAttack) -> str:
    return attack if isinstance(attack, str) else as_configured(attack).use
