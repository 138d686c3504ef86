"""Targeted attacks: which class every sample is to reach, settled before the first query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unmask.data import LabelledImages
from unmask.errors import UserError
from unmask.evaluation.applicability import parts_of
from unmask.evaluation.inspection import ModelFacts
from unmask.evaluation.suite import is_suite

if TYPE_CHECKING:
    from unmask.configured import ConfiguredAttack

__all__ = ["check_targets", "notes_on_targets", "refuse_untargetable"]


def refuse_untargetable(configured: ConfiguredAttack, where: str) -> None:
    """Refuse a targeted attack that has, or is made of one that has, no targeted mode.

    Raises:
        UserError: So it is; or an attack inside another one has a target of its own.
    """
    from unmask.configured import ConfiguredAttack as Configured

    # The stages of a suite are attacks of the run themselves.
    whole = [] if is_suite(configured) else parts_of(configured.attack)
    inside = [part for part in whole if isinstance(part, Configured)]
    for part in inside:
        if part.targeted:
            raise UserError(
                f"gives the attack '{part.use}' inside it a target; say `targeted` and `target` of the "
                "attack that is run.",
                where=where,
            )
    if configured.targeted:
        for part in [configured, *inside]:
            if not part.entry.targeted:
                raise UserError(
                    f"the attack '{part.use}' cannot be targeted. Leave 'targeted' and 'target' out, or "
                    "choose an attack that can: `unmask list attacks`.",
                    where=where,
                )


def check_targets(
    attacks: Mapping[str, ConfiguredAttack], data: LabelledImages, facts: Mapping[str, ModelFacts]
) -> dict[str, Mapping[int, int]]:
    """For every targeted attack the class to be reached, by sample id.

    Args:
        attacks: By their names in the results.
        data: The samples.
        facts: What is known of the models.

    Raises:
        UserError: An attack has no targeted mode; a target is no class of a model; there is not one for every
            sample; one of a list of targets is its sample's label; or one target is the label of all.
    """
    found: dict[str, Mapping[int, int]] = {}
    for name, configured in attacks.items():
        refuse_untargetable(configured, f"attacks.{name}")
        if configured.targeted:
            targets = _targets(configured.target, data, facts, f"attacks.{name}.target")
            found[name] = dict(zip(data.ids.tolist(), targets.tolist(), strict=True))
    return found


def _targets(target: Any, data: LabelledImages, facts: Mapping[str, ModelFacts], where: str) -> Tensor:
    one = isinstance(target, int)
    targets = torch.tensor([target] * len(data) if one else list(target), dtype=torch.int64)
    if len(targets) != len(data):
        raise UserError(
            f"has {len(targets)} classes for {len(data)} samples; give one class, or one for each sample.",
            where=where,
        )
    for name, known in facts.items():
        beyond = targets[targets >= known.classes]
        if len(beyond):
            raise UserError(
                f"the class {int(beyond[0])} does not exist: the model '{name}' has {known.classes} classes, "
                f"0 to {known.classes - 1}.",
                where=where,
            )
    same = (targets == data.labels).nonzero().squeeze(1).tolist()
    if one and len(same) == len(data):
        raise UserError(
            f"all samples are of class {target} already, so there is nothing to reach. Choose another "
            "target.",
            where=where,
        )
    if same and not one:
        # One class for all has samples of its own; a list has been written sample by sample.
        row = same[0]
        raise UserError(
            f"is the label itself for {len(same)} of {len(data)} samples, so there is nothing to reach: "
            f"sample {int(data.ids[row])} is of class {int(targets[row])}. Give each sample another class "
            "than its own.",
            where=f"{where}[{row}]",
        )
    return targets


def notes_on_targets(targets: Mapping[str, Mapping[int, int]], data: LabelledImages) -> list[str]:
    """Sentences about samples whose label is their target: they are not attacked."""
    notes = []
    for name, chosen in targets.items():
        pairs = zip(data.ids.tolist(), data.labels.tolist(), strict=True)
        same = sum(chosen[identity] == label for identity, label in pairs)
        if same:
            notes.append(
                f"attack '{name}': {same} of {len(data)} samples are of their target's class; they are not "
                "attacked, and their target_reached is NaN."
            )
    return notes
