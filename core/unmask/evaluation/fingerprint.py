"""Hashes of what an outcome depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from unmask.data import LabelledImages
from unmask.evaluation.circumstances import versions
from unmask.evaluation.code import code_of
from unmask.evaluation.plan import Plan

__all__ = ["of_model", "of_plan", "of_samples", "of_settings"]


def _add_tensor(digest: Any, name: str, tensor: Tensor) -> None:
    value = tensor.detach().cpu().contiguous()
    digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
    digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())


def _plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_plain(v) for v in value)
    return value is None or isinstance(value, (bool, int, float, complex, str))


def of_model(model: nn.Module) -> str:
    """Of code, tensors and plain attributes of a model and all its parts."""
    digest = hashlib.sha256()
    for name, module in model.named_modules():
        kind = type(module)
        settings = {k: v for k, v in vars(module).items() if not k.startswith("_") and _plain(v)}
        digest.update(f"{name} {kind.__module__}.{kind.__qualname__} {sorted(settings.items())}".encode())
        functions = [v for k, v in sorted(vars(module).items()) if isinstance(v, FunctionType)]
        digest.update(code_of(kind, *functions).encode())
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        _add_tensor(digest, name, tensor)
    return digest.hexdigest()


def of_samples(data: LabelledImages) -> str:
    """Of images, labels and ids."""
    digest = hashlib.sha256()
    for name in ("images", "labels", "ids"):
        _add_tensor(digest, name, getattr(data, name))
    return digest.hexdigest()


def of_settings(settings: Mapping[str, Any]) -> str:
    """Of anything with a JSON form."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()


def of_plan(plan: Plan, models: Mapping[str, nn.Module], precision: str, prepare: str) -> dict[str, str]:
    """What the outcome depends on, a hash or a short text for each; batch size and device are none of it."""
    settings = plan.settings
    parts = {f"model '{name}'": of_model(model) for name, model in models.items()}
    parts |= {
        f"attack '{name}'": of_settings(
            {
                "use": attack.use,
                "provider": attack.provider,
                "options": attack.options,
                "code": code_of(attack.attack),
                "max_queries": attack.max_queries,
                "timeout": attack.timeout,
                **attack.aim(),
            }
        )
        for name, attack in plan.attacks.items()
    }
    parts["samples"] = of_samples(plan.data)
    chosen = {
        "norm": settings.norm,
        "bounds": settings.bounds,
        "epsilons": plan.epsilons,
        "seed": settings.seed,
        "draws": settings.draws,
        "protocol": settings.protocol,
        "max-queries": settings.max_queries,
        "timeout": settings.timeout,
        "precision": precision,
        "prepare": prepare,
        "keep-examples": settings.keep_examples,
    }
    # As text, not hashed, so that a refusal can say what it was and what it is now.
    parts |= {name: json.dumps(value, default=str) for name, value in chosen.items()}
    parts["installed versions"] = of_settings(
        {name: version for name, version in versions().items() if name in ("unmask", "torch")}
    )
    return parts
