"""ART's attacks, which take an estimator and NumPy arrays."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unmask_plugins.adapters.door import Problem
from unmask_plugins.adapters.libraries import ART
from unmask_plugins.adapters.listed.art import ATTACKS
from unmask_plugins.adapters.offering import Offering

__all__ = ["attacks"]


def _find(name: str) -> Any:
    from art.attacks import evasion

    return getattr(evasion, name)


_OF_PROBABILITIES = ("SimBA", "VirtualAdversarialMethod")
"""Attacks that refuse a model of logits."""


def _estimator(name: str, problem: Problem) -> Any:
    from art.estimators.classification import PyTorchClassifier

    model: nn.Module = problem.model
    if name in _OF_PROBABILITIES:
        model = nn.Sequential(model, nn.Softmax(1)).eval()
    return PyTorchClassifier(
        model=model,
        loss=nn.CrossEntropyLoss(),
        input_shape=tuple(problem.images.shape[1:]),
        nb_classes=problem.classes,
        clip_values=(0.0, 1.0),
        device_type="gpu" if problem.images.device.type == "cuda" else "cpu",
    )


def _call(build: Any, problem: Problem, options: dict[str, Any]) -> Tensor:
    takes = inspect.signature(build).parameters
    settings = {
        "eps": problem.epsilon,
        "norm": problem.p if problem.norm == "linf" else int(problem.p),
        "targeted": problem.targets is not None,
        "decision_rule": "L1" if problem.norm == "l1" else "EN",
        "batch_size": len(problem.images),
        "loss_type": "cross_entropy",
        "verbose": False,
    }
    options.update({k: v for k, v in settings.items() if k in takes and options.get(k) is None})
    attack = build(_estimator(build.__name__, problem), **options)
    goals = np.eye(problem.classes, dtype=np.float32)[problem.goals.cpu().numpy()]
    found = attack.generate(x=problem.images.cpu().numpy().astype(np.float32), y=goals)
    return torch.as_tensor(np.asarray(found), device=problem.images.device)


attacks = Offering(
    ART,
    ATTACKS,
    _find,
    _call,
    hidden=(
        "estimator",
        "classifier",
        "estimator_orig",
        "eps",
        "norm",
        "targeted",
        "decision_rule",
        "batch_size",
        "verbose",
        "summary_writer",
        "parallel_pool_size",
        "attacks",
        "adv_criterion",
        "loss",
        "eval_perform",
    ),
)
