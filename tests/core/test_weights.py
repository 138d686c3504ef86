from __future__ import annotations

import argparse
import hashlib
import os
import threading
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from unmask.errors import UserError
from unmask.weights import (
    load_state,
    load_weights,
    read_state_dict,
    save_weights,
    sha256_of_file,
    sha256_of_state,
)


def network(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2)).eval()


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(
        torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


WRAPPINGS = {
    "bare": lambda state: state,
    "state_dict": lambda state: {"state_dict": state, "epoch": 3, "best": 0.5},
    "model": lambda state: {"model": state},
    "model_state_dict": lambda state: {"model_state_dict": state, "optimizer_state_dict": {"lr": 0.1}},
    "net": lambda state: {"net": state, "acc": 91.0},
    "average": lambda state: {"ema": state},
    "nested": lambda state: {"model": {"state_dict": state}},
    "data parallel": lambda state: {"state_dict": {f"module.{k}": v for k, v in state.items()}},
    "compiled": lambda state: {f"_orig_mod.{k}": v for k, v in state.items()},
    "both": lambda state: {f"module._orig_mod.{k}": v for k, v in state.items()},
    "averaged model": lambda state: (
        {"n_averaged": torch.tensor(4)} | {f"module.{k}": v for k, v in state.items()}
    ),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("suffix", [".pt", ".pth", ".th"])
def test_the_usual_checkpoints_load(wrapping: str, suffix: str, tmp_path: Path) -> None:
    source, target = network(0), network(1)
    path = tmp_path / f"weights{suffix}"
    torch.save(WRAPPINGS[wrapping](source.state_dict()), path)
    assert not same(source, target)
    assert load_weights(target, path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert same(source, target)


def test_plain_weights_come_before_averaged_ones(tmp_path: Path) -> None:
    path = tmp_path / "both.pt"
    torch.save({"state_dict_ema": {"w": torch.ones(1)}, "state_dict": {"w": torch.zeros(1)}}, path)
    assert read_state_dict(path)["w"].item() == 0.0


def test_safetensors_load(tmp_path: Path) -> None:
    source, target = network(0), network(1)
    path = tmp_path / "weights.safetensors"
    safetensors.torch.save_file(source.state_dict(), path)
    load_weights(target, path)
    assert same(source, target)


def test_a_model_whose_own_names_begin_with_module_keeps_them() -> None:
    source, target = nn.Module(), nn.Module()
    source.module, target.module = network(0), network(1)
    load_state(target, source.state_dict())
    assert same(source, target)


def test_the_batch_counter_may_be_missing() -> None:
    source, target = network(0), network(1)
    state = {k: v for k, v in source.state_dict().items() if not k.endswith("num_batches_tracked")}
    load_state(target, state)
    assert same(source, target)


def test_what_does_not_fit_is_named_and_nothing_changes(tmp_path: Path) -> None:
    target = network(1)
    before = sha256_of_state(target.state_dict())
    state = dict(network(0).state_dict())
    state["4.weight"] = state.pop("0.weight")
    state["3.weight"] = torch.zeros(5, 8)
    path = tmp_path / "w.pt"
    torch.save(state, path)
    with pytest.raises(UserError) as refusal:
        load_weights(target, path)
    for part in (str(path), "lacks '0.weight'", "'4.weight', which", "3.weight is 5x8 instead of 2x8"):
        assert part in str(refusal.value)
    assert sha256_of_state(target.state_dict()) == before


def test_many_misfits_are_counted() -> None:
    with pytest.raises(UserError, match="and 3 more"):
        load_state(network(), {f"layer{i}": torch.zeros(1) for i in range(9)})


def test_weights_that_are_not_finite_are_refused() -> None:
    state = dict(network(0).state_dict())
    state["3.bias"] = torch.tensor([0.0, float("nan")])
    with pytest.raises(UserError, match=r"not finite in '3\.bias'"):
        load_state(network(1), state)


def test_a_name_with_and_without_prefix_is_refused() -> None:
    state = dict(network(0).state_dict())
    with pytest.raises(UserError, match="twice"):
        load_state(network(1), {**state, "module.3.bias": state["3.bias"]})


def test_the_hash_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    torch.save(network(0).state_dict(), path)
    digest = sha256_of_file(path)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert set(read_state_dict(path, sha256=digest.upper())) == set(network().state_dict())
    path.write_bytes(b"not even a checkpoint")
    with pytest.raises(UserError, match=f"not {digest}; nothing was loaded"):
        read_state_dict(path, sha256=digest)


class Evil:
    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.mark,)


def test_a_pickle_never_runs_code(tmp_path: Path) -> None:
    path, mark = tmp_path / "evil.pt", tmp_path / "ran"
    torch.save({"state_dict": {"w": torch.zeros(1)}, "extra": Evil(str(mark))}, path)
    with pytest.raises(UserError, match=r"running code.*torch\.save\(model\.state_dict\(\)"):
        read_state_dict(path)
    assert not mark.exists()


def test_a_pickled_model_and_foreign_objects_are_refused(tmp_path: Path) -> None:
    torch.save(network(), tmp_path / "model.pt")
    torch.save({"state_dict": {}, "args": argparse.Namespace(lr=1)}, tmp_path / "args.pt")
    for name in ("model.pt", "args.pt"):
        with pytest.raises(UserError, match="running code"):
            read_state_dict(tmp_path / name)


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file '.*gone\.pt'"):
        read_state_dict(tmp_path / "gone.pt")
    with pytest.raises(UserError, match=r"there is no file '.*gone\.pt'"):
        sha256_of_file(tmp_path / "gone.pt")
    (tmp_path / "folder.pt").mkdir()
    with pytest.raises(UserError, match="cannot be read"):
        read_state_dict(tmp_path / "folder.pt")
    for name, value in {"list": [1, 2], "other": {"epoch": 3, "weights": 4}, "empty": {}}.items():
        torch.save(value, tmp_path / f"{name}.pt")
        with pytest.raises(UserError, match="holds no state dict"):
            read_state_dict(tmp_path / f"{name}.pt")
    with pytest.raises(UserError, match="'epoch', 'weights'"):
        read_state_dict(tmp_path / "other.pt")


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_damaged_files_are_refused_in_words(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    suffix = data.draw(st.sampled_from([".pt", ".safetensors"]))
    path = tmp_path_factory.mktemp("damaged") / f"w{suffix}"
    state = {"w": torch.arange(6.0), "b": torch.zeros(2)}
    if suffix == ".pt":
        torch.save(state, path)
    else:
        safetensors.torch.save_file(state, path)
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(UserError, match="w"):
        read_state_dict(path)


def test_what_is_saved_comes_back_bit_for_bit(tmp_path: Path) -> None:
    shared = torch.arange(6.0).reshape(2, 3)
    state = {
        "a": shared,
        "b": shared,
        "c": shared.t(),
        "d": torch.tensor(3),
        "e": torch.tensor([1.5], dtype=torch.bfloat16),
        "f": torch.zeros(0, 2),
        "g": torch.tensor([True]),
    }
    path = save_weights(state, tmp_path / "w.safetensors", {"recipe": "{}"})
    found = read_state_dict(path)
    assert sha256_of_state(found) == sha256_of_state(state)
    assert found["d"].shape == ()
    assert [file.name for file in tmp_path.iterdir()] == ["w.safetensors"]


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = save_weights({"w": torch.zeros(1)}, tmp_path / "w.safetensors")
    with pytest.raises(UserError, match="only tensors"):
        save_weights({"w": 3}, path)  # type: ignore[dict-item]
    with pytest.raises(UserError, match="cannot be written"):
        save_weights({"w": torch.ones(1)}, tmp_path / "gone" / "w.safetensors")
    assert read_state_dict(path)["w"].item() == 0.0


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    states = [{"w": torch.full((20_000,), float(i))} for i in range(2)]
    save_weights(states[0], path)
    writers = [
        threading.Thread(target=lambda s=s: [save_weights(s, path) for _ in range(15)]) for s in states
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert len(read_state_dict(path)["w"].unique()) == 1
    for writer in writers:
        writer.join()
    assert [file.name for file in tmp_path.iterdir()] == ["w.safetensors"]


def test_the_hash_of_a_state_knows_names_types_shapes_and_values() -> None:
    state: dict[str, Tensor] = {"a": torch.zeros(2), "b": torch.ones(3)}
    hashes = {
        sha256_of_state(variant)
        for variant in (
            state,
            {"a": torch.zeros(2), "c": torch.ones(3)},
            {**state, "a": torch.zeros(2, dtype=torch.int32)},
            {**state, "a": torch.zeros(1, 2)},
            {**state, "a": torch.tensor([0.0, -0.0])},
        )
    }
    assert len(hashes) == 5
    assert sha256_of_state(dict(reversed(state.items()))) == sha256_of_state(state)
