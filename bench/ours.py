"""Our side of a pair."""

from __future__ import annotations

from typing import Any

import attrs
import torch
from torch import Tensor, nn

import unmask
from bench.peers import EPSILON
from unmask.evaluation.batching import rows_at_once
from unmask.evaluation.inspection import ModelFacts, inspect_model
from unmask.evaluation.ledger import Ledger
from unmask.evaluation.loop import run_attack
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.preparation.forms import Compilations, Forms, build
from unmask.evaluation.random import SampleRandom
from unmask.evaluation.target import Target
from unmask.evaluation.task import Task
from unmask.evaluation.threat import Ball
from unmask.models.guest import guests
from unmask.plugins.catalog import catalog


@attrs.define(eq=False)
class Search:
    """One attack through the door, without early exit, as often as wanted.

    Attributes:
        model: What is attacked.
        images: The samples.
        labels: Their classes.
        rows: Of one model call; the product's own choice when None.
        prepared: Ask the folded model, channels innermost, as large runs do.
        half: In bfloat16.
    """

    model: nn.Module
    images: Tensor
    labels: Tensor
    rows: int | None = None
    prepared: bool = False
    half: bool = False
    facts: ModelFacts = attrs.field(init=False)
    _forms: Forms | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.facts = inspect_model(self.model, self.images, self.labels)
        if self.prepared:
            form = build("channels-last", self.model, self.images[:16], self.half, Compilations())
            self._forms = Forms({id(self.model): form})

    def task(self) -> Task:
        """A fresh task."""
        kernels = catalog().kernels()
        ball = Ball("linf", EPSILON, (0.0, 1.0), kernels)

        def stream(purpose: str) -> SampleRandom:
            ids = range(len(self.images))
            return SampleRandom.for_samples(ids, purpose, kernels=kernels, device=self.images.device)

        rows = self.rows or rows_at_once(self.images[0])
        forms = self._forms
        ledger = Ledger(
            oracle=Oracle(self.facts, rows, None if forms is None else lambda: (forms, rows)),
            clean=self.images,
            labels=self.labels,
            ball=ball,
            random=stream("model"),
            early_exit=False,
        )
        return Task(Target(ledger), self.images, self.labels, ball, stream("attack"))

    def run(self, attack: Any) -> None:
        """Run it to its last step."""
        with guests([self.model]):
            for _ in run_attack(attack, self.task()):
                pass


def robust_accuracy(
    model: nn.Module, images: Tensor, labels: Tensor, attack: Any, **options: Any
) -> tuple[float, Any]:
    """By `unmask.evaluate`, from the inspection to the result."""
    with torch.random.fork_rng():
        results = unmask.evaluate(model, images, labels, {"attack": attack}, ["8/255"], **options)
    return float(results.unmask.robust_accuracy().sel(attack="attack").item()), results
