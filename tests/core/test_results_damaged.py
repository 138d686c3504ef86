"""A result file that is cut short, changed or of another version is an error in words."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr

from unmask.cli.main import main
from unmask.errors import UserError
from unmask.reports.text import render_text
from unmask.results import load, save
from unmask.results.storage import opened

Make = Callable[..., xr.Dataset]


@pytest.fixture
def stored(make_results: Make, tmp_path: Path) -> Path:
    clean = {"a": np.ones(20), "b": np.ones(20)}
    cells = {(m, a, e): np.arange(20.0) % 2 for m in clean for a in ("pgd", "square") for e in (0.1, 0.2)}
    return save(make_results(clean, cells), tmp_path / "results.nc")


LOOK = """
import sys
from pathlib import Path
from unmask.errors import UserError
from unmask.results import load

content = Path(sys.argv[1]).read_bytes()
place = Path(sys.argv[2])
for length in map(int, sys.argv[3].split(",")):
    place.write_bytes(content[:length])
    try:
        load(place)
    except UserError as error:
        assert str(place) in str(error), error
    else:
        raise SystemExit(f"cut to {length} of {len(content)} bytes it was read")
print("all refused")
"""


def test_cut_short_at_any_byte(stored: Path, tmp_path: Path) -> None:
    size = stored.stat().st_size
    lengths = sorted({0, 1, 4, 8, 100, size - 1, *random.Random(0).sample(range(size), 60)})
    # In a process of its own: a library that crashed on such a file would be seen as well.
    looked = subprocess.run(
        [sys.executable, "-c", LOOK, str(stored), str(tmp_path / "cut.nc"), ",".join(map(str, lengths))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert looked.returncode == 0, looked.stderr
    assert "all refused" in looked.stdout


def test_a_report_does_not_read_the_examples(make_results: Make, tmp_path: Path) -> None:
    small = make_results({"a": np.ones(20)}, {("a", "pgd", 0.1): np.zeros(20)})
    kept = np.zeros((1, 1, 1, 20, 1, 8, 8), dtype=np.float32)
    dims = ("model", "attack", "epsilon", "sample", "channel", "height", "width")
    path = save(small.assign(adversarial=(dims, kept)), tmp_path / "results.nc")
    with opened(path) as dataset:
        render_text(dataset)
        assert dataset.correct.variable._in_memory
        assert not dataset.adversarial.variable._in_memory


FLIP = """
import random, sys
from pathlib import Path
from unmask.cli.main import main
from unmask.errors import UserError
from unmask.results import load

content = Path(sys.argv[1]).read_bytes()
place = Path(sys.argv[2])
moment = random.Random(1)
told = 0
for _ in range(int(sys.argv[3])):
    damaged = bytearray(content)
    damaged[moment.randrange(len(content))] ^= moment.randrange(1, 256)
    place.write_bytes(damaged)
    try:
        load(place)
    except UserError:
        told += 1
    if len(sys.argv) > 4:
        # A report reads what it needs when it needs it, so damage shows late.
        try:
            main(["report", str(place), "--format", sys.argv[4], "-o", str(place) + ".txt"])
        except SystemExit as ended:
            assert ended.code in (0, None, 2), ended.code
print(told)
"""


@pytest.mark.parametrize("asked", [("80",), ("20", "text")])
def test_a_changed_byte_is_never_a_traceback(stored: Path, tmp_path: Path, asked: tuple[str, ...]) -> None:
    looked = subprocess.run(
        [sys.executable, "-c", FLIP, str(stored), str(tmp_path / "changed.nc"), *asked],
        capture_output=True,
        text=True,
        check=False,
    )
    assert looked.returncode == 0, looked.stderr
    assert int(looked.stdout.splitlines()[-1]) > 0
    assert "Traceback" not in looked.stderr


def change(path: Path, **attributes: object) -> None:
    with netCDF4.Dataset(path, "a") as results:
        for name, value in attributes.items():
            if value is None:
                results.delncattr(name)
            else:
                results.setncattr(name, value)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"schema_version": 99}, "layout version 99"),
        ({"schema_version": "two"}, "layout version two"),
        ({"schema_version": None}, "not a result of Unmask"),
        ({"json_attributes": "{"}, "damaged"),
        ({"json_attributes": '["title"]', "title": "{"}, "damaged"),
        ({"json_attributes": "3"}, "damaged"),
    ],
)
def test_other_versions_and_damaged_attributes(
    stored: Path, capsys: pytest.CaptureFixture[str], attributes: dict[str, object], words: str
) -> None:
    change(stored, **attributes)
    with pytest.raises(UserError, match=words):
        load(stored)
    with pytest.raises(SystemExit) as ended:
        main(["report", str(stored)])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert words in said and "results.nc" in said and "Traceback" not in said


def test_a_variable_that_is_gone(stored: Path, tmp_path: Path) -> None:
    with xr.open_dataset(stored) as opened:
        opened.load().drop_vars("screening").to_netcdf(tmp_path / "less.nc")
    with pytest.raises(UserError, match="not a result of Unmask"):
        load(tmp_path / "less.nc")
    (tmp_path / "text.nc").write_text(json.dumps({"a": 1}))
    with pytest.raises(UserError, match="damaged, cut short or of another kind"):
        load(tmp_path / "text.nc")
