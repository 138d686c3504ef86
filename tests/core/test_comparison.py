"""Two runs compared: the same samples, the exact test, and what else changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
import xarray as xr
from scipy import stats
from typer.testing import CliRunner

from unmask.cli.compare import compare
from unmask.errors import UserError
from unmask.reports.comparison import changes
from unmask.results import save

Make = Callable[..., xr.Dataset]
app = typer.Typer()
app.command()(compare)


@pytest.fixture
def runs(make_results: Make) -> tuple[xr.Dataset, xr.Dataset]:
    n = 40
    before = np.ones(n)
    after = before.copy()
    after[:12] = 0
    clean = {"m": np.ones(n)}
    return (
        make_results(clean, {("m", "pgd"): before, ("m", "square"): before}),
        make_results(clean, {("m", "pgd"): after, ("m", "fgsm"): after}, seed=3),
    )


def test_by_hand(runs: tuple[xr.Dataset, xr.Dataset]) -> None:
    found = {c.attack: c for c in changes(*runs)}
    assert set(found) == {"clean", "pgd", "worst case"}
    pair = found["pgd"].paired
    assert (pair.second, pair.first, pair.difference) == (1, pytest.approx(0.7), pytest.approx(-0.3))
    assert (pair.only_second, pair.only_first) == (12, 0)
    assert pair.p_value == pytest.approx(stats.binomtest(0, 12).pvalue)
    assert found["pgd"].adjusted == pytest.approx(3 * pair.p_value)
    assert found["clean"].paired.p_value == 1


def test_only_shared_samples_count(runs: tuple[xr.Dataset, xr.Dataset]) -> None:
    first, second = runs
    part = second.isel(sample=slice(None, None, -2))
    found = {c.attack: c.paired for c in changes(first, part)}
    assert found["pgd"].samples == 20 and found["pgd"].only_second == 6


def test_refusals(runs: tuple[xr.Dataset, xr.Dataset]) -> None:
    first, second = runs
    with pytest.raises(UserError, match="share no model"):
        changes(first, second.assign_coords(model=np.array(["x"], dtype=object)))
    with pytest.raises(UserError, match="share no sample"):
        changes(first, second.assign_coords(sample=second["sample"] + 500))
    with pytest.raises(UserError, match="other labels"):
        changes(first, second.assign_coords(label=second["label"] + 1))
    with pytest.raises(UserError, match="different norms"):
        changes(first, second.assign_attrs(norm="l2"))


def test_command(runs: tuple[xr.Dataset, xr.Dataset], tmp_path: Path) -> None:
    names = [str(save(run, tmp_path / f"{i}.nc")) for i, run in enumerate(runs)]
    done = CliRunner().invoke(app, names, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.exception
    flat = " ".join(done.output.split())
    assert (
        "seed: A 0, B 3" in flat and "only in A: attack square" in flat and "only in B: attack fgsm" in flat
    )
    assert "-30.0" in flat and "12 / 0" in flat and "McNemar, exact" in flat and "99 %" in flat
    assert "attack pgd: pgd, knows gradients (autograd); steps = 50" in flat
    assert CliRunner().invoke(app, [names[0], names[0]]).exit_code == 0
