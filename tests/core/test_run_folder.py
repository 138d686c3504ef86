"""An interrupted run goes on; a different one is refused; nothing is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unmask.errors import UserError
from unmask.results import CellOutcome, CleanOutcome, RunFolder

PRINT = {"manifest": "aa" * 32, "model backbone": "bb" * 32, "samples": "cc" * 32, "seed": "0"}
KEY = {"model": "a", "attack": "pgd", "epsilon": 0.1, "shard": 0}
MakeCell = Callable[..., CellOutcome]


def only_cell(folder: Path) -> Path:
    (path,) = (folder / "cells").iterdir()
    return path


def test_cells_come_back(
    make_cell: MakeCell, make_clean: Callable[..., CleanOutcome], tmp_path: Path
) -> None:
    first = RunFolder(tmp_path / "run", PRINT)
    assert not first.resumed and first.load_cell(KEY) is None
    kept = make_cell(
        [1, 0], adversarial=np.ones((2, 1, 2, 2)), message="ünïcode", gradient_norm=[np.nan, np.inf]
    )
    first.save_cell(KEY, kept)
    first.save_clean({"model": "a"}, make_clean([1, 0.5]))

    again = RunFolder(tmp_path / "run", dict(reversed(PRINT.items())))
    assert again.resumed
    found = again.load_cell(dict(reversed(KEY.items())))
    assert found is not None and found.message == "ünïcode" and found.seconds == kept.seconds
    for name, array in kept.arrays().items():
        assert np.array_equal(found.arrays()[name], array, equal_nan=True)
        assert found.arrays()[name].dtype == array.dtype
    clean = again.load_clean({"model": "a"})
    assert clean is not None and clean.correct.tolist() == [1, 0.5]
    assert again.load_cell({**KEY, "epsilon": 0.2}) is None
    assert again.load_cell({"model": "a"}) is None
    assert again.warnings == []


def test_failed_cells_are_done_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", PRINT)
    folder.save_cell(KEY, CellOutcome.failed(3, "boom"))
    assert folder.load_cell(KEY) is None


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_is_noticed(make_cell: MakeCell, tmp_path: Path, data: st.DataObject) -> None:
    folder = RunFolder(tmp_path / "run", PRINT)
    folder.save_cell(KEY, make_cell([1, 0]))
    path = only_cell(tmp_path / "run")
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] ^= data.draw(st.integers(1, 255))
    else:
        del content[place:]
    path.write_bytes(content)
    assert folder.load_cell(KEY) is None
    assert len(folder.warnings) == 1 and path.name in folder.warnings[0]


def test_a_cell_under_another_name_is_not_taken(make_cell: MakeCell, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", PRINT)
    folder.save_cell(KEY, make_cell([1, 0]))
    mine = only_cell(tmp_path / "run")
    other = {**KEY, "epsilon": 0.2}
    folder.save_cell(other, make_cell([0, 0]))
    (theirs,) = set((tmp_path / "run" / "cells").iterdir()) - {mine}
    theirs.write_bytes(mine.read_bytes())
    assert folder.load_cell(other) is None
    assert "another cell" in folder.warnings[0]


def test_another_run_is_refused_and_moved_aside(make_cell: MakeCell, tmp_path: Path) -> None:
    RunFolder(tmp_path / "run", PRINT).save_cell(KEY, make_cell([1, 0]))
    other = {"manifest": "zz" * 32, "samples": "cc" * 32, "settings": "dd" * 32, "seed": "1"}
    with pytest.raises(UserError) as refused:
        RunFolder(tmp_path / "run", other)
    message = str(refused.value)
    assert "manifest (changed)" in message and "model backbone (gone)" in message
    assert "settings (new)" in message and "samples" not in message
    assert "seed (0, now 1)" in message
    assert "--fresh" in message and str(tmp_path / "run") in message

    fresh = RunFolder(tmp_path / "run", other, fresh=True)
    assert not fresh.resumed and fresh.load_cell(KEY) is None
    assert RunFolder(tmp_path / "run.1", PRINT).load_cell(KEY) is not None
    RunFolder(tmp_path / "run", PRINT, fresh=True)
    assert (tmp_path / "run.2" / "run.json").exists()
    assert RunFolder(tmp_path / "run.1", PRINT).load_cell(KEY) is not None


def test_fresh_leaves_a_folder_without_a_run_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("x")
    RunFolder(tmp_path, PRINT, fresh=True)
    assert (tmp_path / "mine.toml").exists()


def test_damaged_record(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run", PRINT)
    (tmp_path / "run" / "run.json").write_text('{"layout": 1, "finger')
    with pytest.raises(UserError, match=r"run\.json: is damaged.*--fresh"):
        RunFolder(tmp_path / "run", PRINT)
    assert not RunFolder(tmp_path / "run", PRINT, fresh=True).resumed


def test_unusable_places(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="Choose another place"):
            RunFolder(place, PRINT)


def test_a_file_that_cannot_be_written_holds_up_no_other(make_cell: MakeCell, tmp_path: Path) -> None:
    told: list[str] = []
    folder = RunFolder(tmp_path / "run", PRINT, warn=told.append)
    folder.save_cell(KEY, make_cell([1, 0]))
    blocked = only_cell(tmp_path / "run")
    blocked.unlink()
    (blocked / "in the way").mkdir(parents=True)
    folder.save_cell(KEY, make_cell([1, 0]))
    folder.save_cell({**KEY, "epsilon": 0.2}, make_cell([0, 0]))
    assert len(told) == 1
    assert "1 finished cells could not be kept" in folder.notes()[-1]
    found = RunFolder(tmp_path / "run", PRINT).load_cell({**KEY, "epsilon": 0.2})
    assert found is not None and found.correct.tolist() == [0, 0]


def test_cells_of_a_run_whose_record_is_lost_are_taken_by_that_run_alone(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    RunFolder(tmp_path / "run", PRINT).save_cell(KEY, make_cell([1, 0]))
    (tmp_path / "run" / "run.json").unlink()
    assert RunFolder(tmp_path / "run", {**PRINT, "seed": "1"}).load_cell(KEY) is None
    (tmp_path / "run" / "run.json").unlink()
    assert RunFolder(tmp_path / "run", PRINT).load_cell(KEY) is not None


def test_a_folder_that_was_done_away_with_is_made_again(make_cell: MakeCell, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", PRINT)
    shutil.rmtree(tmp_path / "run")
    folder.save_cell(KEY, make_cell([1, 0]))
    again = RunFolder(tmp_path / "run", PRINT)
    assert again.resumed
    assert again.load_cell(KEY) is not None
