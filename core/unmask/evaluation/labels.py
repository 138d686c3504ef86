"""What a result says of its models and attacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unmask.components import ConfiguredAttack
from unmask.evaluation.inspection import ModelFacts
from unmask.results.layout import AttackLabel, ModelLabel

__all__ = ["attack_label", "model_label"]


def model_label(
    facts: ModelFacts, draws: int, protocol: str, descriptions: Mapping[str, Mapping[str, Any]]
) -> ModelLabel:
    """How a model is entered in the result."""
    if protocol == "single-draw":
        draws = 0 if facts.randomness == "deterministic" else 1
    elif facts.randomness != "drawn":
        draws = 0
    return ModelLabel(
        name=facts.name,
        randomness=facts.randomness,
        draws=draws,
        front_end=facts.has_front_end,
        description={"classes": facts.classes, **descriptions.get(facts.name, {})},
    )


def attack_label(name: str, attack: ConfiguredAttack) -> AttackLabel:
    """How an attack is entered in the result."""
    limits = {"max-queries": attack.max_queries, "timeout": attack.timeout}
    return AttackLabel(
        name=name,
        use=attack.use,
        access=attack.access,
        gradient=attack.gradient_name,
        search=attack.entry.search,
        settings={
            **attack.options,
            **{k: v for k, v in limits.items() if v is not None},
            **attack.aim(),
        },
        provider=attack.provider,
    )
