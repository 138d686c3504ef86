"""The published AutoAttack, run through the door."""

from __future__ import annotations

import importlib
import inspect
from importlib import metadata
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs
import torch
from torch import Tensor, nn

from unmask.errors import UserError

if TYPE_CHECKING:
    from unmask.evaluation.inspection import ModelFacts
    from unmask.evaluation.random import SampleRandom
    from unmask.evaluation.target import Target
    from unmask.evaluation.threat import Ball

__all__ = ["ReferenceStage", "find_reference"]

_DISTRIBUTIONS = ("pyautoattack", "autoattack")
_NORMS = {"linf": "Linf", "l2": "L2", "l1": "L1"}
_FEWEST_CLASSES = {"apgd-dlr": 3, "apgd-t": 4}


def find_reference() -> tuple[ModuleType, str]:
    """The module of the published AutoAttack that is installed, and ``distribution version``.

    Raises:
        UserError: None is.
    """
    for name in _DISTRIBUTIONS:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            continue
        try:
            return module, f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            return module, name
    raise UserError(
        "'reference' needs the published AutoAttack, which is not installed: run 'pip install pyautoattack', "
        "or use engine 'native'.",
        where="engine",
    )


class _Answers(nn.Module):
    """One row of the door as the reference wants a model: any number of images in [0, 1] to logits."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target

    def forward(self, images: Tensor) -> Tensor:
        """Logits [image, class]."""
        low, high = self.target.bounds
        shown = images if (low, high) == (0.0, 1.0) else low + (high - low) * images
        row = torch.zeros(len(images), dtype=torch.int64, device=images.device)
        return self.target.select(row)(shown)


@attrs.frozen
class ReferenceStage:
    """One attack of the published AutoAttack.

    Samples are attacked one at a time: the reference draws from the global random state and drops rows as it
    goes, so only then is it known which sample a query is for, and no sample's outcome depends on another.

    Attributes:
        stage: Such as ``apgd-ce``.
        version: The reference's version whose settings it has.
    """

    stage: str
    version: str

    def __call__(
        self, target: Target, images: Tensor, labels: Tensor, budget: Ball, random: SampleRandom
    ) -> Tensor:
        """What the reference returns for every sample."""
        seeds = random.integers(0, 2**31).tolist()
        low, high = budget.bounds
        devices = [images.device] if images.device.type == "cuda" else []
        found = images.clone()
        with torch.random.fork_rng(devices=devices):
            for row, seed in enumerate(seeds):
                one = target.select(torch.tensor([row], device=images.device))
                attack = self._built(one, budget, seed, images.device)
                # The reference flattens by view, which no other layout allows.
                unit = ((images[row : row + 1] - low) / (high - low)).contiguous()
                adversarial = attack.perturb(unit, labels[row : row + 1])
                if not torch.equal(adversarial, unit):
                    found[row] = (low + (high - low) * adversarial[0]).to(found.dtype)
        return found

    def _built(self, target: Target, budget: Ball, seed: int, device: torch.device) -> Any:
        """The reference's own object for this stage, set as its version sets it."""
        build = find_reference()[0].AutoAttack
        quiet = {"verbose": False} if "verbose" in inspect.signature(build).parameters else {}
        low, high = budget.bounds
        whole = build(
            _Answers(target),
            norm=_NORMS[budget.norm],
            eps=budget.epsilon / (high - low),
            seed=seed,
            version=self.version,
            device=device,
            **quiet,
        )
        attack = {
            "apgd-ce": whole.apgd,
            "apgd-dlr": whole.apgd,
            "apgd-t": whole.apgd_targeted,
            "fab": whole.fab,
            "fab-t": whole.fab,
            "square": whole.square,
        }[self.stage]
        attack.seed = seed
        if attack is whole.apgd:
            attack.loss = self.stage.removeprefix("apgd-")
        if attack is whole.fab:
            attack.targeted = self.stage == "fab-t"
            attack.n_restarts = 1 if attack.targeted else 5
        if hasattr(attack, "n_target_classes"):
            attack.n_target_classes = min(attack.n_target_classes, target.classes - 1)
        return attack

    def why_not(self, facts: ModelFacts) -> str | None:
        """Why it does not apply to a model, if it does not."""
        fewest = _FEWEST_CLASSES.get(self.stage, 2)
        if facts.classes >= fewest:
            return None
        return (
            f"the reference's {self.stage} needs at least {fewest} classes, and the model has {facts.classes}"
        )
