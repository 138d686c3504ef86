"""Suites: attacks that are run one after the other, each on what those before it left standing.

A suite is one row of the results, and each of its stages another, ``<suite>/<stage>``: the state after that
stage. So the last stage and the suite agree, and only the counts of the suite are sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from unmask.errors import UserError
from unmask.evaluation.task import Suite
from unmask.results.outcome import CellOutcome

if TYPE_CHECKING:
    from unmask.configured import ConfiguredAttack

__all__ = ["is_suite", "rows_of", "stages_of", "total"]


def is_suite(configured: ConfiguredAttack) -> bool:
    """Whether an attack is made of stages."""
    return isinstance(configured.attack, Suite)


def rows_of(attacks: Mapping[str, ConfiguredAttack], norm: str) -> dict[str, ConfiguredAttack]:
    """The attacks of the results: every suite after its stages, everything else as it is.

    A limit of the suite (``max-queries``, ``timeout``) holds for each stage that has none of its own, since
    every stage is a cell.

    Raises:
        UserError: A suite has no stage, or one that is a suite itself.
    """
    rows: dict[str, ConfiguredAttack] = {}
    for name, configured in attacks.items():
        rows |= stages_of(name, configured, norm)
        rows[name] = configured
    return rows


def stages_of(name: str, configured: ConfiguredAttack, norm: str) -> dict[str, ConfiguredAttack]:
    """The stages of a suite by their names in the results; nothing for any other attack."""
    if not is_suite(configured):
        return {}
    found = {}
    for stage, attack in configured.attack.stages(norm).items():
        if is_suite(attack):
            raise UserError(
                f"'{stage}' is a suite, and a suite is made of attacks; name its attacks one by one.",
                where=f"attacks.{name}",
            )
        found[f"{name}/{stage}"] = attrs.evolve(
            attack,
            max_queries=configured.max_queries if attack.max_queries is None else attack.max_queries,
            timeout=configured.timeout if attack.timeout is None else attack.timeout,
            **({"targeted": True, "target": configured.target} if configured.targeted else {}),
        )
    if not found:
        raise UserError("has no attack to run.", where=f"attacks.{name}")
    return found


def total(stages: Sequence[CellOutcome]) -> CellOutcome:
    """The suite's own outcome: the state after its last stage, with what all of them spent.

    Args:
        stages: Those that were run, at one radius, in order; where one failed the suite has failed.
    """
    last = stages[-1]
    seconds = sum(stage.seconds for stage in stages)
    messages = "; ".join(dict.fromkeys(stage.message for stage in stages if stage.message))
    if not last.finished:
        return CellOutcome.failed(len(last), messages, seconds=seconds)
    backwards = np.stack([stage.backwards for stage in stages])
    shares: dict[str, Any] = {}
    for name in ("gradient_zero", "gradient_nonfinite", "gradient_norm"):
        weighted = np.nansum(np.stack([getattr(stage, name) for stage in stages]) * backwards, axis=0)
        asked = backwards.sum(0)
        shares[name] = np.where(asked > 0, weighted / np.maximum(asked, 1), np.nan)
    twice = [stage.searched_twice for stage in stages if stage.searched_twice is not None]
    if twice:
        shares["searched_twice"] = np.max(twice, axis=0)
    return attrs.evolve(
        last,
        forwards=np.sum([stage.forwards for stage in stages], axis=0),
        backwards=backwards.sum(0),
        seconds=seconds,
        message=messages,
        **shares,
    )
