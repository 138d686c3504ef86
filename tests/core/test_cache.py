from __future__ import annotations

import json
from pathlib import Path

import pytest
import safetensors
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask.cache import Cache, cache_folder, canonical_json, key_of
from unmask.errors import UserError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_a_key_is_the_sha256_of_canonical_json() -> None:
    assert canonical_json({"b": [1, 2.5, None], "a": "é"}) == '{"a":"é","b":[1,2.5,null]}'
    # sha256 of '{}'
    assert key_of({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_equal_recipes_have_equal_keys(recipe: dict[str, object]) -> None:
    assert key_of(dict(reversed(recipe.items()))) == key_of(recipe)
    assert json.loads(canonical_json(recipe)) == recipe
    assert key_of({**recipe, "one more": 1}) != key_of({**recipe, "one more": 2})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_recipe_is_finite(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        key_of({"x": value})


def test_the_folder_can_be_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNMASK_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    assert Cache().folder == tmp_path / "mine" / "trained"
    monkeypatch.delenv("UNMASK_CACHE")
    assert cache_folder().name == "unmask"


def test_what_is_kept_is_found_with_its_recipe(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "trained")
    recipe = {"use": "standard", "epochs": 3}
    key = key_of(recipe)
    assert key not in cache and cache.load(key) is None
    path = cache.store(key, {"w": torch.arange(3)}, recipe)
    assert key in cache and path == cache.path(key)
    found = cache.load(key)
    assert found is not None and torch.equal(found["w"], torch.arange(3))
    with safetensors.safe_open(path, "pt") as file:
        assert json.loads(file.metadata()["recipe"]) == recipe
    assert [file.name for file in cache.folder.iterdir()] == [path.name]


def test_a_damaged_file_is_as_good_as_none_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = Cache(tmp_path)
    path = cache.store("k", {"w": torch.zeros(100)}, {})
    path.write_bytes(path.read_bytes()[:-7])
    assert cache.load("k") is None
    assert "damaged" in caplog.text and str(path) in caplog.text


def test_an_unusable_folder_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Set UNMASK_CACHE"):
        Cache(tmp_path / "file").prepare()
