"""What an attack declares, whatever the norm."""

from __future__ import annotations

import json

from unmask.components import as_configured
from unmask.errors import UserError
from unmask.evaluation.task import IterativeAttack
from unmask.evaluation.threat import NORMS
from unmask.testing.attacks.setting import AttackSubject
from unmask.testing.laws import LawBroken, require
from unmask.testing.subject import Subject

__all__ = ["CHECKS"]


def declares_norms_that_exist(subject: Subject) -> None:
    """An attack declares at least one norm, and only such as evaluations know."""
    norms = subject.entry.norms
    unknown = [norm for norm in norms if norm not in NORMS]
    require(
        norms and not unknown,
        f"it declares the norms {list(norms)}",
        f"Declare those it is made for: norms=(...) of {', '.join(NORMS)}.",
    )


def has_settings_that_build_it_again(subject: Subject) -> None:
    """Its options can be stored as JSON, as the result file does, and build the same attack again."""
    attack = AttackSubject(subject.kind, subject.provided, subject.options).configured()
    try:
        stored = json.loads(json.dumps(attack.table()))
        again = as_configured(stored)
    except (TypeError, ValueError, UserError) as error:
        raise LawBroken(
            f"what is stored of it does not build it again: {error}",
            "Let options be numbers, text, lists, tables, or components by name.",
        ) from error
    require(
        again.table() == attack.table(),
        f"built again from {stored} it has the settings {again.table()}",
        "Keep options as they were given: validate in the builder, and derive other values later.",
    )


def has_a_loop_that_can_be_run(subject: Subject) -> None:
    """An attack in steps has a whole number of `steps`, and `restarts` or `runs` where it starts again."""
    attack = AttackSubject(subject.kind, subject.provided, subject.options).configured().attack
    if not isinstance(attack, IterativeAttack):
        return
    steps, restarts = attack.steps, getattr(attack, "restarts", 1)
    require(
        isinstance(steps, int) and steps >= 0 and isinstance(restarts, int) and restarts >= 1,
        f"its steps are {steps!r} and its restarts {restarts!r}",
        "Make both whole numbers; refuse others with a validator such as attrs.validators.ge(1).",
    )


CHECKS = (declares_norms_that_exist, has_settings_that_build_it_again, has_a_loop_that_can_be_run)
