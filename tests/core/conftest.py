"""Hand-made results whose right answers are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr

from unmask.dimensions import Status
from unmask.results import AttackLabel, CellOutcome, CleanOutcome, ModelLabel, Provenance, assemble

KINDS: dict[str, dict[str, Any]] = {
    "pgd": {"use": "pgd", "access": "gradients", "gradient": "autograd", "settings": {"steps": 50}},
    "fgsm": {"use": "fgsm", "access": "gradients", "gradient": "autograd"},
    "bpda": {"use": "pgd", "access": "gradients", "gradient": "bypass", "settings": {"steps": 50}},
    "zero-order": {
        "use": "pgd",
        "access": "gradients",
        "gradient": "finite-difference",
        "settings": {"steps": 10, "gradient": {"use": "finite-difference", "square": 1}},
    },
    "square": {"use": "square", "access": "scores", "settings": {"queries": 1000}},
    "transfer": {"use": "transfer", "access": "transfer"},
}


def cell(correct: Any, **changes: Any) -> CellOutcome:
    """An outcome with plausible values for everything that is not said."""
    correct = np.asarray(correct, dtype=float)
    n = len(correct)
    fields: dict[str, Any] = {
        "correct": correct,
        "screening": correct,
        "prediction": np.zeros(n),
        "confidence": np.full(n, 0.75),
        "margin": correct - 0.5,
        "distance": np.full(n, 0.1),
        # Broken samples leave early.
        "forwards": np.where(correct < 0.5, 6, 51),
        "backwards": np.full(n, 50),
        "status": np.full(n, Status.OK),
        "gradient_zero": np.zeros(n),
        "gradient_nonfinite": np.zeros(n),
        "gradient_norm": np.ones(n),
        "seconds": 1.5,
    }
    return CellOutcome(**{**fields, **changes})


def clean_outcome(correct: Any, **changes: Any) -> CleanOutcome:
    correct = np.asarray(correct, dtype=float)
    fields: dict[str, Any] = {
        "correct": correct,
        "screening": correct,
        "prediction": np.zeros(len(correct)),
        "confidence": np.full(len(correct), 0.9),
        "margin": correct - 0.5,
    }
    return CleanOutcome(**{**fields, **changes})


@pytest.fixture(scope="session")
def make_cell() -> Callable[..., CellOutcome]:
    return cell


@pytest.fixture(scope="session")
def make_clean() -> Callable[..., CleanOutcome]:
    return clean_outcome


@pytest.fixture(scope="session")
def make_results() -> Callable[..., xr.Dataset]:
    """`make(clean, cells)`: correctness by model; outcome or correctness by (model, attack[, epsilon])."""

    def make(
        clean: dict[str, Any],
        cells: dict[tuple[Any, ...], Any],
        *,
        randomness: dict[str, str] | None = None,
        **provenance: Any,
    ) -> xr.Dataset:
        whole = {
            (key[0], key[1], key[2] if len(key) > 2 else 0.1): value
            if isinstance(value, CellOutcome)
            else cell(value)
            for key, value in cells.items()
        }
        n = len(next(iter(clean.values())))
        kinds = randomness or {}
        defaults: dict[str, Any] = {
            "title": "test",
            "unmask_version": "0",
            "created": "2026-01-01T00:00:00+00:00",
            "norm": "linf",
            "bounds": (0.0, 1.0),
            "seed": 0,
            "precision": "float32",
            "device": "cpu",
            "versions": {"python": "3.11"},
            "data": "digits",
        }
        return assemble(
            models=[
                ModelLabel(m, kinds.get(m, "deterministic"), 100 if kinds.get(m) == "drawn" else 0)  # type: ignore[arg-type]
                for m in clean
            ],
            attacks=[
                AttackLabel(a, **(KINDS.get(a) or KINDS[a.rpartition("/")[2]]))
                for a in dict.fromkeys(key[1] for key in whole)
            ],
            epsilons=sorted({key[2] for key in whole}),
            sample_ids=np.arange(n) + 1000,
            labels=np.arange(n) % 10,
            clean={m: c if isinstance(c, CleanOutcome) else clean_outcome(c) for m, c in clean.items()},
            cells=whole,
            provenance=Provenance(**{**defaults, **provenance}),
        )

    return make
