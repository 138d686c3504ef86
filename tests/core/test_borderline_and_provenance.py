"""What hangs on rounding is marked, and a result says what made it."""

from __future__ import annotations

import json
from importlib import metadata

import pytest
import torch
from torch import nn

import unmask
from unmask.dimensions import Status
from unmask.evaluation.borderline import hangs_on_rounding
from unmask.plugins.catalog import catalog


def test_the_rule() -> None:
    judged = torch.tensor([1.0, 1e-9, -1e-9, 0.0, 0.0, -1.0, -torch.inf, 1e-9], dtype=torch.float64)
    seen = torch.tensor([1.0, 3e-9, 1e-9, 0.0, 1e-9, -1.2, 1.0, torch.inf], dtype=torch.float64)
    assert hangs_on_rounding(judged, seen).tolist() == [False, True, True, False, True, False, False, False]


class Unsteady(nn.Module):
    """Logits of a linear model that differ by `size` with the number of calls, as rounding would have it."""

    def __init__(self, weight: torch.Tensor, size: float) -> None:
        super().__init__()
        self.weight, self.size, self.calls = nn.Parameter(weight), size, 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        logits = images.flatten(1) @ self.weight.T
        shift = torch.tensor([self.size, 0.0]) * (self.calls % 2)
        return logits + shift


def _stays(target, images, labels, budget, random):
    """Shows the clean images to the model and returns them."""
    target(images)
    return images


@pytest.mark.parametrize(("offset", "marked"), [(1e-6, True), (1e-2, False)])
def test_a_margin_smaller_than_its_own_rounding_is_marked_and_counted(offset: float, marked: bool) -> None:
    weight = torch.tensor([[3.0, 0.0, 0.0, 0.0], [0.0, 3.0, 0.0, 0.0]])
    images = torch.full((5, 1, 2, 2), 0.5)
    images[:, 0, 0, 0] += offset
    # An odd number, so that judge and door see different answers; the size stays below what an inspection
    # takes for a random model.
    model = Unsteady(weight, 5e-6).eval()
    results = unmask.evaluate(model, images, torch.zeros(5, dtype=torch.int64), {"stays": _stays}, [0.1])
    count = int((results.status == Status.BORDERLINE).sum())
    assert (count > 0) == marked
    told = [w for w in json.loads(results.attrs["warnings"]) if "borderline" in w]
    assert bool(told) == marked
    if marked:
        assert told[0].startswith(str(count))


def test_a_result_says_what_made_it(known) -> None:
    model, images, labels = known.linear_problem(12)
    results = unmask.evaluate({"m": model}, images, labels, {"fgsm": "fgsm"}, [0.05])
    plugins = json.loads(results.attrs["plugins"])
    assert {p["name"] for p in plugins} >= {p.name for p in catalog().plugins}
    (mine,) = [p for p in plugins if p["name"] == "unmask/builtin"]
    assert mine == {"name": "unmask/builtin", "distribution": "unmask", "version": metadata.version("unmask")}
    computed = json.loads(results.attrs["computed"])
    assert computed["engine"] == "serial"
    assert computed["threads"] == torch.get_num_threads()
    assert {"kernels", "instructions", "float32-matmul", "system"} <= computed.keys()
    for attribute in ("device", "precision", "preparation", "seed", "versions", "samples_sha256", "warnings"):
        assert results.attrs[attribute] not in (None, ""), attribute
