"""Metrics and 8-bit validity through `unmask.evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import unmask
from unmask.errors import UserError
from unmask.evaluation.quantization import rounded
from unmask.plugins.catalog import catalog


def probabilities(model: torch.nn.Module, images: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return model(images).double().softmax(1).numpy()


def test_calibration_is_that_of_the_models_probabilities(known) -> None:
    model, images, labels = known.linear_problem(12)
    ds = unmask.evaluate(
        {"m": model}, images, labels, {"fgsm": "fgsm"}, [0.05], metrics=["calibration"], keep_examples=True
    )
    assert np.array_equal(ds["image"].values, images.numpy())
    final = torch.as_tensor(ds["adversarial"].values[0, 0, 0])
    one_hot = np.eye(3)[labels.numpy()]
    for examples, shown, prefix in (("clean", images, "clean_"), ("final", final, "")):
        p = probabilities(model, shown)
        own = p[np.arange(12), labels.numpy()]
        brier = ((p - one_hot) ** 2).sum(1).mean()
        assert np.allclose(ds[f"{prefix}label_probability"].values.ravel(), own, atol=1e-6)
        assert ds.unmask.brier_score(examples).item() == pytest.approx(brier, abs=1e-6)
        assert ds[f"{prefix}brier_score"].item() == ds.unmask.brier_score(examples).item()
        assert ds[f"{prefix}negative_log_likelihood"].item() == pytest.approx(-np.log(own).mean(), abs=1e-5)
        assert ds[f"{prefix}mean_confidence"].item() == pytest.approx(p.max(1).mean(), abs=1e-6)
        assert ds[f"{prefix}calibration_error"].item() == ds.unmask.calibration_error(15, examples).item()
    asked = json.loads(ds.attrs["metrics"])
    assert asked == [{"use": "calibration", "options": {}, "provider": "unmask/builtin"}]


def test_certified_radius_of_a_linear_model(known) -> None:
    """Smoothing a linear model of two classes changes nothing; its radius is the distance to the plane."""
    model, images, _ = known.linear_problem(6, classes=2)
    with torch.no_grad():
        logits = model(images)
    labels, weight = logits.argmax(1), model.weight.detach()
    truth = (logits[:, 0] - logits[:, 1]).abs() / (weight[0] - weight[1]).norm()
    asked = {"use": "certified-radius", "sigma": 0.5, "n": 4000, "n0": 50}
    ds = unmask.evaluate(
        {"m": model}, images, labels, {"pgd": unmask.attack("pgd", steps=3)}, [0.02], metrics=[asked]
    )
    radius, predicted = ds["certified_radius"].values[0], ds["certified_prediction"].values[0]
    sure = truth.numpy() > 0.06
    assert sure.sum() >= 3 and (predicted[sure] == labels.numpy()[sure]).all()
    assert np.nanmax(radius - truth.numpy()) <= 1e-6
    reachable = sure & (truth.numpy() < 1.0)
    assert (radius[reachable] > truth.numpy()[reachable] - 0.07).all()
    assert "adversarial" not in ds and not ds["certificate_contradicted"].any()
    assert ds["certified_radius"].attrs["n"] == 4000
    again = unmask.evaluate(
        {"m": model}, images[3:], labels[3:], {"pgd": unmask.attack("pgd", steps=3)}, [0.02],
        metrics=[asked], sample_ids=[3, 4, 5],
    )  # fmt: skip
    assert np.array_equal(again["certified_radius"].values[0], radius[3:], equal_nan=True)


class Spike(torch.nn.Module):
    """Class 1 for even images brighter than grey, which any noise makes uneven; otherwise class 0."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        away = images.flatten(1).std(1) > 0.05
        brightness = images.flatten(1).mean(1)
        one = torch.where(away, brightness.new_zeros(len(images)), (brightness > 0.52).float() * 4)
        return torch.stack([torch.ones_like(one), one], 1) + 0 * brightness[:, None]


def test_fooling_the_model_alone_contradicts_no_certificate() -> None:
    images = torch.full((4, 1, 4, 4), 0.5)

    def brighter(target, images, labels, budget, random):
        return images + budget.epsilon

    ds = unmask.evaluate(
        {"m": Spike().eval()}, images, torch.zeros(4, dtype=torch.long),
        {"brighter": brighter}, [0.05],
        metrics=[{"use": "certified-radius", "n": 100, "n0": 10}],
    )  # fmt: skip
    assert (ds["correct"] == 0).all() and ds["certificate_checked"].all()
    assert not ds["certificate_contradicted"].any() and json.loads(ds.attrs["warnings"]) == []


class Watcher(torch.nn.Module):
    """Class 0 for grey images, class 1 for slightly brighter ones, small noise or not."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        score = (images.flatten(1).mean(1) - 0.52) * 500
        return torch.stack([-score, score], 1)


def test_a_contradicted_certificate_is_told() -> None:
    """A radius far larger than the model deserves: the smoothed classifier itself is turned within it."""
    images = torch.full((3, 1, 4, 4), 0.5)
    from unmask_plugins.metrics.certified_radius import CertifiedRadius

    def brighter(target, images, labels, budget, random):
        return images + budget.epsilon

    def forged(measured):
        metric = CertifiedRadius(sigma=0.01, n=200, n0=10)
        checked, contradicted = metric._cross_check(measured, np.full(3, 5.0), np.zeros(3, dtype=int))
        return {"checked": ("sample", checked), "contradicted": ("sample", contradicted)}

    forged.dims = ("model", "sample")
    forged.needs_examples = True
    ds = unmask.evaluate(
        {"m": Watcher().eval()}, images, [0, 0, 0], {"brighter": brighter}, [0.05], metrics=[forged]
    )
    assert ds["checked"].all() and ds["contradicted"].all()


def test_metrics_of_ones_own(known, tmp_path: Path) -> None:
    model, images, labels = known.linear_problem(5)

    def spread(results: xr.Dataset) -> xr.DataArray:
        return results["margin"].std("sample")

    def brightness(measured):
        return xr.DataArray(measured.images.flatten(1).mean(1).numpy(), dims="sample")

    def broken(results):
        raise RuntimeError("no such luck")

    def greedy(results):
        return {"correct": results["correct"]}

    brightness.dims = ("model", "sample")
    ds = unmask.evaluate(
        {"a": model, "b": model}, images, labels, {"fgsm": "fgsm"}, [0.1],
        metrics=[spread, brightness, broken, greedy], out=tmp_path,
    )  # fmt: skip
    assert ds["spread"].dims == ("model", "attack", "epsilon")
    assert ds["brightness"].dims == ("model", "sample")
    assert np.allclose(ds["brightness"].sel(model="b"), images.flatten(1).mean(1))
    warnings = json.loads(ds.attrs["warnings"])
    assert any("'broken' failed: RuntimeError: no such luck" in w for w in warnings)
    assert any("overwrite correct" in w for w in warnings)
    assert "spread" in unmask.load(tmp_path / "results.nc")


@pytest.mark.parametrize(
    ("metrics", "word"),
    [
        (["calibratoin"], "Did you mean 'calibration'"),
        ([{"use": "calibration", "bin": 3}], "bins"),
        ([{"use": "calibration", "bins": 0}], "at least 1"),
        ([{"bins": 3}], "use"),
        ("calibration", "list"),
        ([3], "not 3"),
    ],
)
def test_refused_metrics(known, metrics, word: str) -> None:
    model, images, labels = known.linear_problem(5)
    with pytest.raises((UserError, TypeError), match=word):
        unmask.evaluate({"m": model}, images, labels, {"fgsm": "fgsm"}, [0.1], metrics=metrics)


def test_eight_bits(known) -> None:
    """An example that hangs on less than a grey level does not survive; one on the grid does."""
    clean = torch.full((2, 1, 1, 1), 100 / 255)
    model = known.Linear(torch.tensor([[0.0], [1.0]]), torch.tensor([0.0, -100.4 / 255])).eval()
    labels = torch.tensor([0, 0])

    def up(target, images, labels, budget, random):
        step = torch.tensor([0.45 / 255, 1.0 / 255]).reshape(2, 1, 1, 1)
        return images + step[: len(images)].minimum(torch.tensor(budget.epsilon))

    ds = unmask.evaluate({"m": model}, clean, labels, {"up": up}, ["1/255", "2/255"], quantize="8bit")
    assert ds["correct"].values[0, 0].tolist() == [[0, 0], [0, 0]]
    assert ds["correct_quantized"].values[0, 0].tolist() == [[1, 0], [1, 0]]
    assert ds["quantized"].all() and "adversarial" not in ds and ds.attrs["quantize"] == "8bit"
    with pytest.raises(UserError, match="8bit"):
        unmask.evaluate({"m": model}, clean, labels, {"up": up}, [0.1], quantize="8bits")


@given(st.sampled_from(["linf", "l2", "l1"]), st.integers(0, 2**31), st.floats(0.004, 0.5), st.booleans())
@settings(max_examples=60, deadline=None)
def test_laws_of_rounding(norm: str, seed: int, epsilon: float, on_grid: bool) -> None:
    kernels = catalog().kernels()
    generator = torch.Generator().manual_seed(seed)
    clean = torch.rand((8, 1, 3, 3), generator=generator)
    if on_grid:
        clean = (clean * 255).round() / 255
    moved = clean + epsilon * torch.randn(clean.shape, generator=generator)
    images = kernels.project(moved, clean, norm, epsilon, 0.0, 1.0)
    found, fits = rounded(images, clean, norm, epsilon, (0.0, 1.0), kernels)
    levels = found[fits].double() * 255
    assert ((levels - levels.round()).abs() < 1e-4).all()
    assert ((found >= 0) & (found <= 1)).all()
    size = kernels.norms(found.double() - clean.double(), norm)
    assert (size[fits] <= epsilon + 1e-5).all()
    assert torch.equal(found[~fits], images[~fits])
    if on_grid:
        # Rounding towards a clean image on the grid never leaves the ball.
        assert fits.all()


def test_a_manifest_asks_for_metrics_and_rounding(tmp_path: Path) -> None:
    from unmask.manifest.checking import check_manifest
    from unmask.manifest.reading import parse_manifest

    text = """
epsilons = ["8/255"]
quantize = "8bit"
metrics = ["calibration", { use = "certified-radius", n = 100, sigma = "1/4" }]
[data]
use = "digits"
[models.m]
use = "small-cnn"
[attacks.pgd]
use = "pgd"
"""
    manifest = parse_manifest(text, folder=tmp_path)
    assert manifest.quantize == "8bit"
    assert manifest.metrics == ("calibration", {"use": "certified-radius", "n": 100, "sigma": "1/4"})
    check_manifest(manifest)
    for wrong, word in (
        ('quantize = "8bits"', "8bit"),
        ('quantize = "8bit"\nx = 1', "x"),
        ("n = 0, sigma", "at least 1"),
        ("votes = 3, sigma", "votes"),
    ):
        old = 'quantize = "8bit"' if "quantize" in wrong else "n = 100, sigma"
        with pytest.raises(UserError, match=word):
            check_manifest(parse_manifest(text.replace(old, wrong), folder=tmp_path))
