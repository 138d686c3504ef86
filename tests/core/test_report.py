"""Reports say the verdict first, every number with its interval, and lose no warning."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
import xarray as xr
from typer.testing import CliRunner

from unmask.cli.report import report
from unmask.errors import UserError
from unmask.reports.structured import report_data
from unmask.reports.text import render_text
from unmask.reports.wording import epsilon_text, interval_text, percent
from unmask.results import CellOutcome, save

app = typer.Typer()
app.command("report")(report)


@pytest.fixture
def results(make_results: Callable[..., xr.Dataset]) -> xr.Dataset:
    n = 100

    def share(rate: float) -> np.ndarray:  # type: ignore[type-arg]
        return (np.arange(n) < rate * n).astype(float)

    return make_results(
        {"plain": share(1.0), "plain [front]": share(0.98), "coin": np.full(n, 0.9)},
        {
            ("plain", "pgd", 8 / 255): share(0.0),
            ("plain", "bpda", 8 / 255): CellOutcome.not_run(n, "it has no front end"),
            ("plain", "square", 8 / 255): share(0.01),
            ("plain [front]", "pgd", 8 / 255): share(0.75),
            ("plain [front]", "bpda", 8 / 255): share(0.0),
            ("plain [front]", "square", 8 / 255): share(0.02),
            ("coin", "pgd", 8 / 255): np.full(n, 0.9),
            ("coin", "bpda", 8 / 255): CellOutcome.not_run(n, "it has no front end"),
            ("coin", "square", 8 / 255): CellOutcome.failed(n, "out of memory"),
        },
        randomness={"coin": "drawn"},
        title="three models",
        warnings=("The weights were trained on the test set.",),
        seed=11,
    )


def test_text(results: xr.Dataset) -> None:
    text = render_text(results, 120)
    lines = text.splitlines()
    assert lines[0] == "three models"
    assert lines[1].startswith("plain: NO SIGN OF MASKING")
    assert any(line.startswith("plain [front]: MASKED") for line in lines)
    assert any(line.startswith("coin: INCONCLUSIVE") for line in lines)
    assert text.index("MASKED") < text.index("Threat model") < text.index("Accuracy in %")
    flat = " ".join(text.split())
    for part in ("norm linf", "epsilon 8/255", "100 samples of digits", "seed 11", "Clopper-Pearson, 99 %"):
        assert part in flat
    # 75 of 100 at 99 %.
    assert "75.0" in text and "62.3-85.2" in text
    assert "bypass beats white box (bpda, epsilon 8/255): 76.5 % of 98 samples, p < 0.0001" in flat
    assert "steps = 50" in flat and "queries = 1000" in flat
    assert "100 fresh draws" in flat
    assert "The weights were trained on the test set." in flat
    assert "coin, square: 100 of 100 samples failed: out of memory (epsilon 8/255)" in flat
    assert "plain, bpda: not run: it has no front end" in flat
    assert "<= 90.0" in text and "an attack failed" in flat


def test_narrow_terminals_lose_nothing(results: xr.Dataset) -> None:
    assert "out of memory" in " ".join(render_text(results, 60).split())


def test_level_changes_the_intervals(results: xr.Dataset) -> None:
    assert "62.3-85.2" not in render_text(results, 120, level=0.9)
    assert "90 %" in render_text(results, 120, level=0.9)


def test_json(results: xr.Dataset) -> None:
    data = json.loads(json.dumps(report_data(results), allow_nan=False))
    assert data["report_version"] == 1 and data["threat_model"]["norm"] == "linf"
    front = data["models"]["plain [front]"]
    assert front["verdict"]["label"] == "masked"
    assert front["clean_accuracy"]["numerator"] == 98
    assert front["worst_case"][0]["value"] == 0 and front["worst_case"][0]["upper_bound"] is False
    cells = {(c["model"], c["attack"]): c for c in data["cells"]}
    assert len(cells) == 9
    robust = cells["plain [front]", "pgd"]["robust_accuracy"]
    assert robust["value"] == 0.75 and robust["lower"] == pytest.approx(0.62314, abs=5e-6)
    assert cells["coin", "square"]["robust_accuracy"]["value"] is None
    assert data["models"]["coin"]["worst_case"][0]["upper_bound"] is True
    assert data["attacks"]["pgd"]["settings"]["steps"] == 50
    assert {p["message"] for p in data["problems"]} == {"it has no front end", "out of memory"}
    assert data["warnings"] == ["The weights were trained on the test set."]


def test_words() -> None:
    assert epsilon_text(8 / 255) == "8/255" and epsilon_text(0.2) == "0.2" and epsilon_text(0.123) == "0.123"
    assert epsilon_text(0.0) == "0" and epsilon_text(1.5) == "1.5"
    assert percent(float("nan")) == "-" and percent(0.755) == "75.5"
    assert interval_text(float("nan"), 1.0) == ""


def test_command(results: xr.Dataset, tmp_path: Path) -> None:
    path = save(results, tmp_path / "results.nc")
    run = CliRunner()
    shown = run.invoke(app, [str(path)])
    assert shown.exit_code == 0 and "MASKED" in shown.output
    assert "MASKED" in run.invoke(app, [str(tmp_path)]).output
    assert json.loads(run.invoke(app, [str(path), "--format", "json"]).output)["title"] == "three models"
    for name, format in (("r.txt", "text"), ("r.json", "json")):
        place = tmp_path / "new" / name
        done = run.invoke(app, [str(path), "--format", format, "-o", str(place)])
        assert done.exit_code == 0 and done.output == f"written: {place}\n"
        assert "three models" in (tmp_path / "new" / name).read_text()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["results.nc", "--format", "jsno"], "Did you mean 'json'"),
        (["results.nc", "--level", "99"], "between 0 and 1"),
        (["missing.nc"], "no such file"),
        (["results.nc", "-o", "results.nc/report.txt"], "cannot be written"),
        (["results.nc", "-o", "."], "is a folder"),
    ],
)
def test_refusals(
    results: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], word: str
) -> None:
    save(results, tmp_path / "results.nc")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, UserError) and word in str(done.exception)
    assert [p.name for p in tmp_path.iterdir()] == ["results.nc"]


@pytest.mark.parametrize("width", [50, 60, 80, 100, 160])
def test_no_number_and_no_name_is_cut_however_narrow_the_terminal(results: xr.Dataset, width: int) -> None:
    text = render_text(results, console_width=width)
    assert "…" not in text
    whole = render_text(results, console_width=250)
    intervals = set(re.findall(r"\d+\.\d-\d+\.\d", whole))
    assert intervals
    assert intervals <= set(re.findall(r"\d+\.\d-\d+\.\d", text))
    for attack in results.attack.values:
        assert str(attack) in text
