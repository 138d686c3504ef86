"""The labelled layout is the contract's."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr

from unmask.dimensions import Status
from unmask.results import CellOutcome


def test_layout(make_results: Callable[..., xr.Dataset], make_cell: Callable[..., CellOutcome]) -> None:
    ds = make_results(
        {"a": [1, 0, 1], "b": [1, 1, 1]},
        {("a", "pgd", 0.1): [0, 0, 1], ("b", "square", 0.2): [1, 1, 0]},
        warnings=("beware",),
        seed=7,
    )
    assert dict(ds.sizes) == {"model": 2, "attack": 2, "epsilon": 2, "sample": 3}
    assert ds["correct"].sel(model="a", attack="pgd", epsilon=0.1).values.tolist() == [0, 0, 1]
    assert ds["correct"].sel(model="b", attack="square", epsilon=0.2).values.tolist() == [1, 1, 0]
    assert ds["clean_correct"].dims == ("model", "sample")
    assert ds["seconds"].dims == ds["message"].dims == ("model", "attack", "epsilon")
    assert ds["sample"].values.tolist() == [1000, 1001, 1002]
    assert ds["label"].dims == ("sample",)
    # What was not given was not run, and says so.
    absent = ds.sel(model="a", attack="square", epsilon=0.1)
    assert (absent["status"] == Status.NOT_RUN).all() and absent["message"].item()
    for name in ("clean_prediction", "clean_confidence", "clean_margin", "screening", "prediction"):
        assert name in ds
    for name in ("confidence", "margin", "distance", "forwards", "backwards", "gradient_norm"):
        assert ds[name].dims == ("model", "attack", "epsilon", "sample")
        assert ds[name].attrs["long_name"]
    assert "adversarial" not in ds and "target_reached" not in ds
    assert json.loads(ds.attrs["warnings"]) == ["beware"]
    assert json.loads(ds.attrs["bounds"]) == [0.0, 1.0]
    assert ds.attrs["seed"] == 7 and ds.attrs["schema_version"] == 1
    assert json.loads(ds["settings"].sel(attack="pgd").item())["steps"] == 50


def test_status_is_a_cf_flag(make_results: Callable[..., xr.Dataset]) -> None:
    status = make_results({"a": [1]}, {("a", "pgd"): [1]})["status"]
    assert status.dtype == np.int8
    names = status.attrs["flag_meanings"].split()
    assert dict(zip(names, status.attrs["flag_values"].tolist(), strict=True)) == {
        s.name.lower(): s.value for s in Status
    }


def test_examples_where_kept(
    make_results: Callable[..., xr.Dataset], make_cell: Callable[..., CellOutcome]
) -> None:
    kept = make_cell([1, 0], adversarial=np.full((2, 1, 4, 5), 0.5), target_reached=[0, 1])
    ds = make_results({"a": [1, 1]}, {("a", "pgd"): kept, ("a", "square"): [1, 1]})
    assert ds["adversarial"].dims[-4:] == ("sample", "channel", "height", "width")
    assert ds["adversarial"].dtype == np.float32
    assert (ds["adversarial"].sel(attack="pgd") == 0.5).all()
    assert ds["adversarial"].sel(attack="square").isnull().all()
    assert ds["target_reached"].sel(attack="pgd").values.ravel().tolist() == [0, 1]


def test_wrong_outcomes_are_refused(make_results: Callable[..., xr.Dataset]) -> None:
    with pytest.raises(ValueError, match="3 samples"):
        make_results({"a": [1, 1, 1]}, {("a", "pgd"): [1, 1]})
    with pytest.raises(ValueError, match="not in the run"):
        make_results({"a": [1]}, {("b", "pgd"): [1]})
