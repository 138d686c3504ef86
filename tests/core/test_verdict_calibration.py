"""The verdict about models whose truth is known: sound ones are never called masked, masked ones are."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

SAMPLES = 60


def _calibration() -> ModuleType:
    place = Path(__file__).resolve().parents[2] / "bench" / "verdict_calibration.py"
    spec = importlib.util.spec_from_file_location("verdict_calibration", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


calibration = _calibration()
DATA = calibration.digits(SAMPLES)
SOUND, MASKED = calibration.sound_models(DATA), calibration.masked_models(DATA)
QUICK = {"linear", "CNN, seed 0", "zero-backward layer", "logits times 1000", "sine of high frequency"}


def cases(models: dict[str, Any]) -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in models]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Layers this small are slower on several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_there_are_enough_of_each() -> None:
    assert len(SOUND) >= 8 and len(MASKED) >= 10 and set(SOUND) | set(MASKED) > QUICK


@pytest.mark.parametrize("name", cases(SOUND))
def test_sound_models_are_never_called_masked(name: str) -> None:
    row = calibration.judged(name, SOUND[name](), True, DATA)
    assert row.label != "masked" and row.fired == ()


@pytest.mark.parametrize("name", cases(MASKED))
def test_masked_models_always_are(name: str) -> None:
    row = calibration.judged(name, MASKED[name](), False, DATA)
    assert row.label == "masked" and row.fired
    # It is not called so for nothing: the attack that the user ran leaves standing what others break.
    assert row.gap > 0.05


def test_page() -> None:
    rows = [
        calibration.Row("a", True, "no-sign", (), 1.0, 0.25, 0.25, 0.0, 1.0),
        calibration.Row("b", False, "masked", ("zero-gradients",), 1.0, 0.75, 0.0, 0.75, 1.0),
    ]
    text = calibration.page(rows, 50)
    assert "| sound | 0 | 1 | 0 |" in text and "| masked | 1 | 0 | 0 |" in text
    assert "| b | masked | masked | 100.0 | 75.0 | 0.0 | zero-gradients |" in text
