"""The input gradient along an attack's path, against gradients that are known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import unmask
from unmask import plotting
from unmask.dimensions import TRACED
from unmask.errors import UserError
from unmask.evaluation.tracing import describe_gradients
from unmask.manifest.reading import parse_manifest
from unmask.reports.page import render_html
from unmask.results.merging import merge


def test_what_a_gradient_looks_like_by_hand() -> None:
    nan, inf = math.nan, math.inf
    rows = torch.tensor(
        [[0.005, -0.02, 0.03, -0.005], [nan, inf, -inf, 0.5], [nan, nan, nan, nan], [0.2] * 4]
    )
    found = describe_gradients(rows.double().reshape(4, 1, 2, 2))
    names = list(TRACED)

    def column(name: str) -> list[float]:
        return found[:, names.index(name)].tolist()

    assert column("trace_small") == [0.5, 0, 0, 0]
    assert column("trace_nan") == [0, 0.25, 1, 0]
    assert column("trace_infinite") == [0, 0.5, 0, 0]
    assert column("trace_mean") == pytest.approx([0.015, 0.5, nan, 0.2], nan_ok=True)
    assert column("trace_median") == pytest.approx([0.0125, 0.5, nan, 0.2], nan_ok=True)
    assert column("trace_quantile_99") == pytest.approx([0.0297, 0.5, nan, 0.2], nan_ok=True)
    from scipy.stats import skew

    assert column("trace_skew")[0] == pytest.approx(skew([0.005, 0.02, 0.03, 0.005]))
    assert all(math.isnan(value) for value in column("trace_skew")[1:3])


class Even(nn.Module):
    """Two classes, whose scores have the gradients `slope` and `-slope` everywhere."""

    def __init__(self, slope: Tensor) -> None:
        super().__init__()
        self.slope = nn.Parameter(slope)

    def forward(self, images: Tensor) -> Tensor:
        score = images.flatten(1) @ self.slope
        return torch.stack([score, -score], 1)


def traced(model: nn.Module, images: Tensor, labels: Tensor, **options: Any) -> Any:
    attacks = {
        "pgd": unmask.attack("pgd", steps=12, restarts=3, loss="margin"),
        "square": unmask.attack("square", queries=5),
        "fgsm": "fgsm",
    }
    return unmask.evaluate({"m": model.eval()}, images, labels, attacks, ["0", 0.1], trace=True, **options)


def test_along_the_path_of_a_linear_model_the_gradient_is_its_weight() -> None:
    slope = torch.tensor([0.5, -0.001, 0.2, 0.3])
    images = torch.full((5, 1, 2, 2), 0.5)
    labels = torch.tensor([0, 0, 0, 0, 1])  # the last is wrong when clean
    images[:4, 0, 0, 0] += 0.1
    results = traced(Even(slope), images, labels)
    assert results["trace_small"].dims == ("model", "attack", "epsilon", "step", "sample")
    assert results["step"].values.tolist() == list(range(13))
    pgd = results.sel(model="m", attack="pgd", epsilon=0.1)
    # PGD takes no gradient before its first step, and then one in each.
    assert bool(pgd["trace_small"].isel(step=0).isnull().all())
    path = pgd.isel(step=slice(1, None))
    assert bool(path["trace_small"].isel(sample=4).isnull().all())
    path = path.isel(sample=slice(0, 4))
    # The margin is twice the score: its gradient by the image is twice the slope.
    np.testing.assert_array_equal(path["trace_small"], 0.25)
    np.testing.assert_array_equal(path["trace_nan"] + path["trace_infinite"], 0.0)
    np.testing.assert_allclose(path["trace_mean"], 2 * slope.abs().mean().item(), rtol=1e-6)
    np.testing.assert_allclose(path["trace_median"], 0.5, rtol=1e-6)
    # Nothing at radius 0, nor of attacks that take no gradient.
    assert bool(results["trace_small"].sel(epsilon=0.0).isnull().all())
    assert bool(results["trace_small"].sel(attack="square").isnull().all())
    for name, (unit, meaning) in TRACED.items():
        assert results[name].attrs == {"units": unit, "long_name": meaning}


def test_a_gradient_that_dies_on_the_way_is_seen_dying() -> None:
    class Flat(Even):
        def forward(self, images: Tensor) -> Tensor:
            far = (images - 0.5).flatten(1).abs().mean(1, keepdim=True) > 0.09
            return torch.where(
                far,
                super().forward(images).detach() + 1e-5 * super().forward(images),
                super().forward(images),
            )

    images = torch.full((6, 1, 2, 2), 0.5)
    results = traced(Flat(torch.tensor([3.0, 3.0, 3.0, 3.0])), images, torch.zeros(6, dtype=torch.int64))
    small = results["trace_small"].sel(model="m", attack="pgd", epsilon=0.1).mean("sample").values
    assert small[1] < 0.9 and small[-1] == 1.0


def test_tracing_changes_nothing_else_and_is_absent_when_off(known: Any, tmp_path: Path) -> None:
    model, images, labels = known.linear_problem()
    attacks = {"pgd": unmask.attack("pgd", steps=4, restarts=2), "apgd": unmask.attack("apgd", steps=4)}
    run = {"models": {"m": model}, "images": images, "labels": labels, "attacks": attacks, "epsilons": [0.1]}
    off = unmask.evaluate(**run)
    assert (
        not any(str(name).startswith("trace") for name in (*off.variables, *off.attrs)) and "step" not in off
    )
    on = unmask.evaluate(**run, trace=True, out=tmp_path / "run", batch_size=7)
    for name in ("correct", "margin", "forwards", "backwards", "distance"):
        np.testing.assert_array_equal(on[name], off[name])
    loaded = unmask.load(tmp_path / "run" / "results.nc")
    np.testing.assert_array_equal(loaded["trace_mean"], on["trace_mean"])
    # APGD looks at the gradient of its start before its first step.
    assert bool(on["trace_mean"].sel(attack="apgd").isel(step=0).notnull().any())
    assert model.weight.grad is None and model.weight.requires_grad


def test_the_path_is_that_of_the_cell(known: Any) -> None:
    model, images, labels = known.linear_problem()
    seen: list[Tensor] = []

    class Spy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, shown: Tensor) -> Tensor:
            if shown.requires_grad:
                seen.append(shown.detach().clone())
            return self.inner(shown)

    attack = {"pgd": unmask.attack("pgd", steps=1)}
    unmask.evaluate({"m": Spy().eval()}, images, labels, attack, [0.001])
    cell = [shown for shown in seen if len(shown) == len(seen[-1])][-1]
    seen.clear()
    unmask.evaluate({"m": Spy().eval()}, images, labels, attack, [0.001], trace=True)
    assert torch.equal(seen[-1], cell)


def test_the_figure_and_the_report_show_it(tmp_path: Path, known: Any) -> None:
    model, images, labels = known.linear_problem()
    results = unmask.evaluate(
        {"plain": model, "masked": nn.Sequential(known.ZeroBackward(), model).eval()},
        images,
        labels,
        {"pgd": unmask.attack("pgd", steps=5)},
        [0.1],
        trace=True,
    )
    masked = results["trace_small"].sel(model="masked", attack="pgd").isel(step=slice(1, None))
    assert masked.mean().item() == 1.0
    ax = plotting.plot_trace(results)
    figure = ax.get_figure()
    assert figure is not None and len([a for a in figure.axes if a.lines]) == 5
    assert [line.get_label() for line in ax.lines] == ["plain, pgd", "masked, pgd"]
    np.testing.assert_allclose(ax.lines[1].get_ydata(), 1.0)
    assert "Gradient trace" in render_html(results) and "Gradient health" in render_html(results)
    without = results.drop_vars([*TRACED, "step"])
    assert plotting.plot_trace(without).get_title() == plotting.plot_gradient_health(results).get_title()
    assert "Gradient trace" not in render_html(without)
    with pytest.raises(UserError, match="no radius"):
        plotting.plot_trace(results, epsilon=0.3)


def test_a_manifest_asks_for_it() -> None:
    text = 'epsilons = [0.1]\ndata = "digits"\n[models.m]\nuse = "small-cnn"\n[attacks]\npgd = "pgd"\n'
    assert parse_manifest(f"trace = true\n{text}").trace is True
    assert parse_manifest(text).trace is False
    with pytest.raises(UserError, match="trace"):
        parse_manifest(f'trace = "yes"\n{text}')


def test_traces_of_different_lengths_are_merged(known: Any) -> None:
    model, images, labels = known.linear_problem()

    def part(name: str, steps: int) -> Any:
        attacks = {name: unmask.attack("pgd", steps=steps)}
        return unmask.evaluate({"m": model}, images, labels, attacks, [0.1], trace=True)

    short, long = part("short", 2), part("long", 4)
    whole = merge([short, long])
    assert whole["step"].values.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(
        whole["trace_mean"].sel(attack="long"), long["trace_mean"].sel(attack="long")
    )
    there = whole["trace_mean"].sel(attack="short")
    np.testing.assert_array_equal(there.isel(step=slice(0, 3)), short["trace_mean"].sel(attack="short"))
    assert bool(there.isel(step=slice(3, None)).isnull().all())
