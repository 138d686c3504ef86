"""The attacks that a run adds for its verdict, where it lacks them: ``diagnose = true``."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from unmask.configured import ConfiguredAttack, as_configured
from unmask.dimensions import DIAGNOSE
from unmask.evaluation.whole_box import whole_box
from unmask.verdict.evidence import WEAKEST_SEARCH
from unmask.verdict.families import AttackRow, attack_row

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.evaluation.inspection import ModelFacts

__all__ = ["DIAGNOSED", "Diagnosis"]

DIAGNOSED = 128
"""Samples, the first of the run, that the added attacks are run on."""

STEPS = 40
"""Steps of the gradient search that is added where the run has none that is long enough."""

QUERIES = 500
"""Queries of the score-based search."""

SIDE = 8
"""Slopes are measured along squares, so many to a side of the image, all channels together."""

AVERAGED, AVERAGED_STEPS = 16, 20
"""Draws that a gradient is averaged over for a model that answers at random, and steps of that search."""


@attrs.frozen
class Diagnosis:
    """What is added to a run.

    Attributes:
        attacks: By their names in the results.
        left_out: Why a (model, attack) pair is not run.
        alone: Attacks that are run at every radius as if there were no other.
    """

    attacks: Mapping[str, ConfiguredAttack]
    left_out: Mapping[tuple[str, str], str]
    alone: Collection[str] = ()

    @classmethod
    def none(cls) -> Diagnosis:
        """Nothing."""
        return cls({}, {})

    @classmethod
    def of(
        cls,
        rows: Mapping[str, ConfiguredAttack],
        facts: Mapping[str, ModelFacts],
        norm: str,
        epsilons: Sequence[float],
        image: Tensor,
    ) -> Diagnosis:
        """What the verdict needs and the run lacks.

        Args:
            rows: The attacks of the run, stages of suites among them.
            facts: Its models.
            norm: Its norm.
            epsilons: Its radii.
            image: One of its images [channel, height, width].
        """
        known = [
            attack_row(name, a.use, a.access, a.gradient_name, a.entry.search, a.options)
            for name, a in rows.items()
        ]
        found: dict[str, ConfiguredAttack] = {}
        at_random = {name for name, fact in facts.items() if fact.randomness != "deterministic"}
        drawn = {name for name, fact in facts.items() if fact.randomness == "drawn"}
        spared: dict[str, tuple[set[str], str]] = {}

        def add(what: str, attack: Any) -> str:
            name = f"{DIAGNOSE}/{what}"
            found[name] = as_configured(attack)
            return name

        base = _base(rows, known)
        if base is None:
            base = as_configured({"use": "pgd", "steps": STEPS})
            add("pgd", base)
        families = {row.family for row in known}
        if "black-box" not in families:
            add("square", {"use": "square", "queries": QUERIES})
        if "zero-order" not in families and drawn != set(facts):
            side = math.ceil(max(image.shape[1:]) / SIDE)
            slopes = {"use": "finite-difference", "square": side, "channels": "together"}
            name = add("zero-order", {"use": "pgd", "steps": WEAKEST_SEARCH, "gradient": slopes})
            spared[name] = (drawn, "differences of random answers are noise")
        if "bypass" not in families and any(fact.has_front_end for fact in facts.values()):
            add("bypass", _changed(base, gradient=as_configured(_BYPASS).attack.gradient))
        if "transfer" not in families and len(facts) > 1:
            add("transfer", {"use": "transfer", "source": "leave-one-out"})
        if base.attack.loss == "ce" and not any(row.loss in ("margin", "dlr") for row in known):
            add("margin", _changed(base, loss="margin"))
        if at_random and not any(row.averaged for row in known):
            name = add("eot", _changed(base, eot=AVERAGED, steps=min(base.attack.steps, AVERAGED_STEPS)))
            spared[name] = (set(facts) - at_random, "the model does not answer at random")
        if at_random != set(facts):
            name = add("whole-box", whole_box(_changed(base, restarts=1)))
            spared[name] = (at_random, "a distance says nothing about a model that answers at random")
        alone = []
        if sum(epsilon > 0 for epsilon in epsilons) > 1:
            alone.append(add("repeat", base))
        left_out = {(model, name): why for name, (models, why) in spared.items() for model in models}
        return cls({n: a for n, a in found.items() if norm in a.entry.norms}, left_out, frozenset(alone))


_BYPASS = {"use": "pgd", "gradient": "bypass"}


def _base(rows: Mapping[str, ConfiguredAttack], known: Sequence[AttackRow]) -> ConfiguredAttack | None:
    """The run's own PGD that the added searches are compared with: the one with the most steps."""
    fit = [
        row
        for row in known
        if row.use.rpartition(":")[2] == "pgd"
        and row.family == "white-box"
        and not row.averaged
        and "/" not in row.name
        and not rows[row.name].targeted
        and rows[row.name].attack.steps >= WEAKEST_SEARCH
    ]
    best = max(fit, key=lambda row: (row.loss == "ce", row.steps or 0), default=None)
    return None if best is None else rows[best.name]


def _changed(configured: ConfiguredAttack, **options: Any) -> ConfiguredAttack:
    """The attack with other values of some options."""
    changed = attrs.evolve(configured.attack, **options)
    said = {name: value for name, value in options.items() if isinstance(value, int | str)}
    if "gradient" in options:
        said["gradient"] = as_configured(_BYPASS).options["gradient"]
    return attrs.evolve(configured, attack=changed, options={**configured.options, **said})
