"""What names such as ``backbone``, ``x`` and ``y`` stand for when the documentation is executed.

Each is made when a page first asks for it, and then kept: a small classifier of digits, trained for seconds.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

import unmask
from unmask.components import data
from unmask.data import LabelledImages
from unmask.results.storage import save

__all__ = ["classifier", "results_file"]

SAMPLES = 24


@cache
def _digits(split: str) -> LabelledImages:
    return data("digits", split=split)


@cache
def classifier(seed: int = 0) -> nn.Module:
    """A small network trained on digits for a few passes; right about 95 of 100."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = unmask.model("small-cnn")
    train = unmask.recipe("standard", epochs=4)
    train(model, _digits("train"), seed=seed, device=torch.device("cpu"), progress=lambda *_: None)
    return model.eval()


@cache
def _results() -> Any:
    return unmask.evaluate(
        models={
            "plain": classifier(),
            "guarded": unmask.Defended(unmask.front_end("bit-depth", bits=3), classifier()),
        },
        images=_digits("test").images[:SAMPLES],
        labels=_digits("test").labels[:SAMPLES],
        attacks={
            "pgd": unmask.attack("pgd", steps=10),
            "bpda": unmask.attack("pgd", steps=10, gradient="bypass"),
            "fgsm": "fgsm",
            "transfer": unmask.attack("transfer", source="plain"),
            "fmn": unmask.attack("fmn", steps=20),
        },
        epsilons=["0.1", "0.2"],
        keep_examples=True,
        metrics=["calibration"],
    )


def results_file(path: str) -> None:
    """A small result at the place a page reads one from."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    save(_results(), path)


_MADE = {
    "backbone": classifier,
    "front_end": lambda: unmask.front_end("bit-depth", bits=3),
    "x": lambda: _digits("test").images[:SAMPLES],
    "y": lambda: _digits("test").labels[:SAMPLES],
    "a": lambda: classifier(0),
    "b": lambda: classifier(1),
    "c": lambda: classifier(2),
    "results": _results,
}


def __getattr__(name: str) -> Any:
    if name not in _MADE:
        raise AttributeError(f"no page's name '{name}' is known here")
    return _MADE[name]()
