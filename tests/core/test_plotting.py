"""Figures show the numbers of the result, with threat model and intervals on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from typer.testing import CliRunner

from unmask import plotting
from unmask.cli.plot import KINDS, plot
from unmask.dimensions import Status
from unmask.errors import UserError
from unmask.results import CellOutcome, save

app = typer.Typer()
app.command()(plot)


@pytest.fixture
def results(make_results: Callable[..., xr.Dataset], make_cell: Callable[..., CellOutcome]) -> xr.Dataset:
    n = 20

    def share(rate: float, **changes: object) -> CellOutcome:
        return make_cell((np.arange(n) < rate * n).astype(float), **changes)

    ds = make_results(
        {"a": np.ones(n), "b": np.ones(n)},
        {
            ("a", "pgd", 0.1): share(0.5),
            ("a", "pgd", 0.2): share(0.25),
            ("a", "transfer", 0.1): share(0.75),
            ("a", "transfer", 0.2): share(0.75),
            ("b", "pgd", 0.1): share(1, gradient_zero=np.ones(n), gradient_norm=np.zeros(n)),
            ("b", "pgd", 0.2): share(1, gradient_zero=np.ones(n), gradient_norm=np.zeros(n)),
            ("b", "transfer", 0.1): CellOutcome.not_run(n, "it is the source"),
            ("b", "transfer", 0.2): CellOutcome.not_run(n, "it is the source"),
        },
    )
    settings = ds["settings"].copy(data=np.array(['{"steps": 50}', '{"source": "b"}'], dtype=object))
    return ds.assign_coords(settings=settings)


def lines(ax: Axes) -> dict[str, list[list[float]]]:
    return {str(line.get_label()): np.asarray(line.get_xydata()).tolist() for line in ax.get_lines()}


def words(ax: Axes) -> str:
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    return " ".join(text.get_text() for text in [ax.title, *ax.texts, *figure.texts])


def test_curve(results: xr.Dataset) -> None:
    ax = plotting.plot_curve(results, "a")
    assert lines(ax)["pgd"] == [[0, 1], [0.1, 0.5], [0.2, 0.25]]
    assert "99 %" in words(ax) and len(ax.collections) == 2 and "linf" in ax.get_xlabel()
    assert lines(plotting.plot_curve(results))["b"] == [[0, 1], [0.1, 1], [0.2, 1]]
    with pytest.raises(UserError, match="there is no model 'c'"):
        plotting.plot_curve(results, "c")


def test_given_axes_are_used(results: xr.Dataset) -> None:
    ax = Figure().subplots()
    for draw in (
        plotting.plot_curve,
        plotting.plot_heatmap,
        plotting.plot_reliability,
        plotting.plot_distortion,
        plotting.plot_trace,
    ):
        assert draw(results, ax=ax) is ax


@pytest.mark.filterwarnings("error")
def test_a_curve_of_failed_cells_alone_is_empty_without_a_warning(results: xr.Dataset) -> None:
    failed = results.assign(
        correct=results["correct"] * np.nan, status=xr.full_like(results["status"], Status.FAILED)
    )
    for model in ("a", None):
        assert not plotting.plot_curve(failed, model=model).lines


def test_heatmap(results: xr.Dataset) -> None:
    ax = plotting.plot_heatmap(results, 0.1)
    assert np.asarray(ax.images[0].get_array())[0].tolist() == [0.5, 0.75]
    assert "75.0" in words(ax) and [t.get_text() for t in ax.texts].count("-") == 1
    transfer = plotting.plot_heatmap(results, transfer=True)
    assert [t.get_text() for t in transfer.get_xticklabels()] == ["from b"]
    with pytest.raises(UserError, match=r"no radius 0.3. It has: 0.1, 0.2"):
        plotting.plot_heatmap(results, 0.3)


def test_reliability(results: xr.Dataset) -> None:
    ax = plotting.plot_reliability(results, "a", 0.1, bins=4)
    shown = {c.get_label(): c.lines[0].get_xydata().tolist() for c in ax.containers}
    # The made-up results are 90 % sure when clean and 75 % sure under attack.
    assert np.allclose(shown["clean"], [[0.9, 1.0]]) and np.allclose(shown["pgd"], [[0.75, 0.5]])


def test_distortion(results: xr.Dataset) -> None:
    found = lines(plotting.plot_distortion(results, "a"))["pgd"]
    assert found == [[0, 0], [0.1, 0.5], [0.2, 0.75]]


def test_trace(results: xr.Dataset) -> None:
    ax = plotting.plot_trace(results)
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert any(text.startswith("b, pgd") and "100.0 % zero" in text for text in labels)
    with pytest.raises(UserError, match="no attack of the run took a gradient"):
        plotting.plot_trace(results.assign(gradient_zero=results["gradient_zero"] * np.nan))


@pytest.mark.parametrize("kind", KINDS)
def test_command(results: xr.Dataset, tmp_path: Path, kind: str) -> None:
    path = save(results, tmp_path / "results.nc")
    out = tmp_path / "new" / f"{kind}.svg"
    done = CliRunner().invoke(app, [str(path), kind, "-o", str(out)])
    assert done.exit_code == 0, done.exception
    picture = out.read_bytes()
    CliRunner().invoke(app, [str(path), kind, "-o", str(out.with_suffix(".png"))])
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG") and picture.startswith(b"<?xml")


def test_the_threat_model_is_on_the_figure(results: xr.Dataset) -> None:
    from unmask.plotting.frame import state

    ax = plotting.plot_curve(results)
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    state(figure, results, 0.95)
    text = " ".join(words(ax).split())
    for part in ("norm linf", "epsilon 0.1, 0.2", "20 samples of digits", "seed 0", "95 %", "steps = 50"):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["results.nc", "curves", "-o", "a.png"], "Did you mean 'curve'"),
        (["results.nc", "curve", "-o", "a.gif"], "ends in .png"),
        (["results.nc", "curve", "-o", "a.png", "--epsilon", "0.1"], "no such option"),
        (["results.nc", "heatmap", "-o", "a.png", "--model", "a"], "no such option"),
        (["results.nc", "heatmap", "-o", "a.png", "--epsilon", "1/0"], "1/0"),
        (["none.nc", "curve", "-o", "a.png"], "no such file"),
        (["results.nc", "curve", "-o", "a.png", "--level", "99"], "between 0 and 1"),
    ],
)
def test_refusals(
    results: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], word: str
) -> None:
    save(results, tmp_path / "results.nc")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, UserError) and word in str(done.exception)
    assert not (tmp_path / "a.png").exists()
