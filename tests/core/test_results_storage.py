"""What is written is read back the same, and nothing half-written is ever taken for a result."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unmask.errors import UserError
from unmask.results import CellOutcome, load, save

Make = Callable[..., xr.Dataset]
text = st.text(st.characters(exclude_characters="\x00", exclude_categories=("Cs",)), max_size=30)


@pytest.fixture
def results(make_results: Make) -> xr.Dataset:
    return make_results({"a": [1, 0, 1]}, {("a", "pgd"): [0, 0, 1], ("a", "square"): [1, 0, 1]})


def test_round_trip(make_results: Make, make_cell: Callable[..., CellOutcome], tmp_path: Path) -> None:
    kept = make_cell([1, 0], adversarial=np.full((2, 1, 4, 5), 0.5), distance=[np.inf, 0.0])
    ds = make_results(
        {"a": [1, 1], "much longer name": [0.25, 1]}, {("a", "pgd"): kept, ("a", "fgsm"): [1, 1]}
    )
    again = load(save(ds, tmp_path / "deep" / "results.nc"))
    xr.testing.assert_identical(ds, again)
    assert again["status"].dtype == np.int8 and again["front_end"].dtype == bool
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["results.nc"]


@given(
    st.dictionaries(
        st.sampled_from(["note", "flag", "other"]),
        st.none()
        | st.booleans()
        | text
        | st.floats(allow_nan=False)
        | st.integers(-(2**70), 2**70)
        | st.lists(st.integers() | text)
        | st.dictionaries(text, st.none() | st.booleans()),
    )
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_attributes_come_back(results: xr.Dataset, tmp_path: Path, attributes: dict[str, Any]) -> None:
    ds = results.assign_attrs(attributes)
    ds["correct"].attrs.update(attributes)
    again = load(save(ds, tmp_path / "results.nc"))
    assert again.attrs == ds.attrs and again["correct"].attrs == ds["correct"].attrs
    assert {k: type(v) for k, v in again.attrs.items()} == {k: type(v) for k, v in ds.attrs.items()}


@given(st.lists(text, min_size=2, max_size=2, unique=True))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_text_is_never_cut(results: xr.Dataset, tmp_path: Path, names: list[str]) -> None:
    ds = results.assign_coords(attack=np.array(names, dtype=object))
    again = load(save(ds, tmp_path / "results.nc"))
    assert again["attack"].values.tolist() == names
    longer = results.assign_coords(attack=np.array(["x" * 200, "y" * 300], dtype=object))
    joined = xr.concat(
        [again, load(save(longer, tmp_path / "b.nc"))], "attack", data_vars="minimal", join="outer"
    )
    assert joined["attack"].values.tolist() == [*names, "x" * 200, "y" * 300]


def test_plain_xarray_reads_it(results: xr.Dataset, tmp_path: Path) -> None:
    with xr.open_dataset(save(results, tmp_path / "results.nc")) as plain:
        assert plain["correct"].values.tolist() == results["correct"].values.tolist()
        assert str(plain["attack"].values[1]) == "square"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.999])
def test_cut_short(results: xr.Dataset, tmp_path: Path, share: float) -> None:
    path = save(results, tmp_path / "results.nc")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(UserError, match=r"results\.nc.*damaged"):
        load(path)


def test_clear_refusals(results: xr.Dataset, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        load(tmp_path / "missing.nc")
    with pytest.raises(UserError, match="folder"):
        load(tmp_path)
    (tmp_path / "notes.nc").write_text("not netCDF at all")
    with pytest.raises(UserError, match="damaged"):
        load(tmp_path / "notes.nc")
    xr.Dataset({"x": 1}).to_netcdf(tmp_path / "foreign.nc", engine="netcdf4")
    with pytest.raises(UserError, match="not a result of Unmask"):
        load(tmp_path / "foreign.nc")
    save(results.assign_attrs(schema_version=99), tmp_path / "future.nc")
    with pytest.raises(UserError, match="version 99"):
        load(tmp_path / "future.nc")


def test_failed_writing_keeps_the_old_file(
    results: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(results, tmp_path / "results.nc")
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        save(results.isel(sample=[0]), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["results.nc"]


def test_unusable_places(results: xr.Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "results.nc", tmp_path):
        with pytest.raises(UserError):
            save(results, place)
