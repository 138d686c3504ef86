"""Merging loses nothing, invents nothing, and refuses contradictions and holes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from unmask.cli.merge import merge as merge_command
from unmask.errors import UserError
from unmask.results import CellOutcome, load, save
from unmask.results.merging import merge

Make = Callable[..., xr.Dataset]
app = typer.Typer()
app.command()(merge_command)


@pytest.fixture
def whole(make_results: Make) -> xr.Dataset:
    random = np.random.default_rng(0)
    clean = {"a model with a long name": np.ones(6), "b": np.ones(6)}
    cells = {
        (m, a, e): random.integers(0, 2, 6).astype(float)
        for m in clean
        for a in ("pgd", "square")
        for e in (0.1, 0.2)
    }
    return make_results(clean, cells).assign(flag=(("model", "sample"), np.eye(2, 6, dtype=bool)))


def same(a: xr.Dataset, b: xr.Dataset) -> bool:
    b = b.sel({d: a[d].values for d in ("model", "attack", "epsilon", "sample")})
    return set(a.variables) == set(b.variables) and all(
        a[n].dtype == b[n].dtype and a[n].transpose(*b[n].dims).identical(b[n]) for n in a.variables
    )


@pytest.mark.parametrize("dimension", ["model", "attack", "epsilon", "sample"])
def test_parts_make_the_whole_again(whole: xr.Dataset, dimension: str) -> None:
    parts = [whole.isel({dimension: [i]}) for i in range(whole.sizes[dimension])]
    assert same(whole, merge(parts))
    assert same(whole, merge(parts[::-1]))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_overlaps_that_agree_are_fine(whole: xr.Dataset, rows: list[int]) -> None:
    other = whole.isel(sample=rows).assign(seconds=lambda d: d["seconds"] + 1)
    assert same(whole, merge([whole, other]))


def test_refusals(whole: xr.Dataset, make_results: Make) -> None:
    wrong = whole.copy(deep=True)
    wrong["correct"][0, 0, 0, 0] = 1 - wrong["correct"][0, 0, 0, 0]
    with pytest.raises(UserError, match=r"disagrees .* about correct, in 1 of"):
        merge([whole, wrong])
    with pytest.raises(UserError, match=r"4 of 48 outcomes are in no part.*attack square.*sample 1005"):
        merge([whole.isel(sample=slice(0, 5)), whole.isel(attack=[0])])
    with pytest.raises(UserError, match="seed is 1"):
        merge([whole, whole.assign_attrs(seed=1)])
    with pytest.raises(UserError, match="nothing to merge"):
        merge([])
    with pytest.raises(UserError, match="label"):
        other = whole.assign_coords(label=("sample", whole["label"].values + 1))
        merge([whole, other])
    with pytest.raises(UserError, match="lacks flag"):
        merge([whole.isel(model=[0]), whole.isel(model=[1]).drop_vars("flag")])


def test_radii_that_differ_in_the_last_bit_are_one(whole: xr.Dataset) -> None:
    left, right = whole.isel(sample=slice(0, 3)), whole.isel(sample=slice(3, 6))
    radii = np.nextafter(right["epsilon"].values, 1)
    assert (radii != whole["epsilon"].values).all()
    right = right.assign_coords(epsilon=("epsilon", radii, right["epsilon"].attrs))
    merged = merge([left, right])
    assert same(whole, merged) and merged["epsilon"].values.tolist() == [0.1, 0.2]
    assert merged["flag"].dtype == bool


def test_what_one_part_did_not_run_comes_from_the_other(make_results: Make) -> None:
    done = {("m", "pgd"): [1, 0], ("m", "square"): CellOutcome.not_run(2, "was not run")}
    other = {("m", "pgd"): CellOutcome.failed(2, "boom"), ("m", "square"): [0, 1]}
    parts = [make_results({"m": [1, 1]}, cells) for cells in (done, other)]
    for order in (parts, parts[::-1]):
        merged = merge(order)
        assert merged["correct"].sel(attack="pgd").values.ravel().tolist() == [1, 0]
        assert merged["correct"].sel(attack="square").values.ravel().tolist() == [0, 1]
        assert merged["message"].values.ravel().tolist() == ["", ""]
        assert merged["seconds"].values.ravel().tolist() == [1.5, 1.5]


def test_parts_with_and_without_examples(whole: xr.Dataset) -> None:
    kept = whole.isel(model=[0])
    shape = (*kept["correct"].shape, 1, 2, 2)
    dims = (*kept["correct"].dims, "channel", "height", "width")
    merged = merge([kept.assign(adversarial=(dims, np.ones(shape, np.float32))), whole.isel(model=[1])])
    assert merged["adversarial"].dtype == np.float32
    assert (merged["adversarial"].isel(model=0) == 1).all() and merged["adversarial"].isel(
        model=1
    ).isnull().all()


def test_command(whole: xr.Dataset, tmp_path: Path) -> None:
    names = []
    for i in range(2):
        names.append(str(save(whole.isel(model=[i]), tmp_path / f"{i}.nc")))
    done = CliRunner().invoke(app, [*names, "-o", str(tmp_path / "c.nc")])
    assert done.exit_code == 0 and "2 models, 2 attacks, 2 epsilons, 6 samples" in done.output
    read = load(tmp_path / "c.nc")
    assert same(whole, read) and read["flag"].dtype == bool
    refused = CliRunner().invoke(app, [names[0], str(tmp_path / "none.nc"), "-o", str(tmp_path / "d.nc")])
    assert isinstance(refused.exception, UserError) and not (tmp_path / "d.nc").exists()
