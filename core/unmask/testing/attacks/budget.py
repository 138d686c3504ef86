"""No sample costs more than it may."""

from __future__ import annotations

import attrs
import torch

from unmask.testing.attacks.setting import AttackSubject, radius
from unmask.testing.known import linear_problem
from unmask.testing.laws import LawBroken, require

__all__ = ["CHECKS"]

LIMITS = (1, 2, 7)
SECONDS = 20.0
"""How long a search may take that has a handful of queries."""


def ends_when_its_queries_are_spent(subject: AttackSubject) -> None:
    """With a limit on queries it spends no more (a suite: in each stage), and ends when they are spent."""
    model, images, _ = linear_problem(n=4)
    with torch.no_grad():
        labels = model(images).argmax(1)
    # So small that nothing is found, and only the limit ends the search.
    epsilon = radius(subject.norm, 12) / 1000
    for limit in LIMITS:
        attack = attrs.evolve(subject.configured(max_queries=limit), timeout=SECONDS)
        try:
            results = subject.evaluated(model, images, labels, [epsilon], attack=attack)
        except LawBroken as broken:
            raise LawBroken(
                f"with at most {limit} queries for every sample {broken.found}",
                "A row whose queries are spent gets its last logits again. End a loop when target.active is "
                "false for all rows, or after a fixed number of steps.",
            ) from broken
        most = int(results["forwards"].max())
        stages = max(1, results.sizes["attack"] - 1)
        require(
            most <= limit * stages,
            f"with at most {limit} queries a sample cost {most}",
            "Ask the model through the target that was given.",
        )


def costs_no_more_than_it_says(subject: AttackSubject) -> None:
    """An option `queries` is kept: a run costs no sample more, but for one query of its last example."""
    options = {option.parameter for option in subject.options_on_offer()}
    if "queries" not in options:
        return
    configured = subject.configured()
    allowed = (int(configured.options["queries"]) + 1) * int(configured.options.get("restarts", 1))
    model, images, _ = linear_problem(n=4)
    with torch.no_grad():
        labels = model(images).argmax(1)
    results = subject.evaluated(model, images, labels, [radius(subject.norm, 12) / 1000], attack=configured)
    most = int(results["forwards"].max())
    require(
        most <= allowed,
        f"with queries = {configured.options['queries']} and {configured.options.get('restarts', 1)} runs a "
        f"sample cost {most} forwards",
        "Count every call of the target, the first one too; each row of a call is one query.",
    )


CHECKS = (ends_when_its_queries_are_spent, costs_no_more_than_it_says)
