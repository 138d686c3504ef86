"""The HTML report in a real browser: it sorts, filters, logs no error, and has two colour schemes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from unmask.reports.page import render_html
from unmask.results import CellOutcome

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no headless browser (Chromium) is installed")

PROBE = """
<script>
const found = {};
const first = (cell) => cell.textContent.trim().split(" ")[0];
const column = (table, i) => [...table.tBodies[0].rows].map((row) => first(row.cells[i]));
const table = document.querySelector("#accuracy table");
const click = (i) => table.tHead.rows[0].cells[i].querySelector("button").click();
found.before = column(table, 0);
click(2); found.rising = column(table, 0);
found.sort = table.tHead.rows[0].cells[2].getAttribute("aria-sort");
click(2); found.falling = column(table, 0);
click(0); found.names = column(table, 0);
const rows = () => document.querySelectorAll("#explore-table tbody tr").length;
found.all = rows();
const filter = document.getElementById("explore-filter");
for (const kind of ["broken", "robust", "split"]) {
  filter.value = kind; filter.dispatchEvent(new Event("change")); found[kind] = rows();
}
document.getElementById("explore-model").value = 1;
document.getElementById("explore-model").dispatchEvent(new Event("change"));
found.other = rows();
found.colour = getComputedStyle(document.documentElement).backgroundColor;
found.ink = getComputedStyle(document.querySelector("#figures svg text")).fill;
found.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
const report = document.createElement("pre"); report.id = "found"; report.textContent = JSON.stringify(found);
document.body.append(report);
</script>
</body>"""


@pytest.fixture(scope="module")
def page(make_results: Callable[..., xr.Dataset], tmp_path_factory: pytest.TempPathFactory) -> Path:
    def share(rate: float) -> np.ndarray:  # type: ignore[type-arg]
        return (np.arange(20) < rate * 20).astype(float)

    results = make_results(
        {"b": share(1), "a": share(1), "c": share(1)},
        {
            ("b", "pgd"): share(0.05),
            ("a", "pgd"): share(0.5),
            ("c", "pgd"): CellOutcome.failed(20, "boom"),
            ("b", "square"): share(0.25),
            ("a", "square"): share(0.5),
            ("c", "square"): share(1),
        },
    )
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_html(results).replace("</body>", PROBE), encoding="utf-8")
    return path


def opened(page: Path, *options: str) -> tuple[dict[str, object], str]:
    """What the probe found, and what the browser logged."""
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
            f"--user-data-dir={page.parent / 'profile'}", *options, "--dump-dom", page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=90,
    )  # fmt: skip
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr
    return json.loads(found[1].replace("&gt;", ">").replace("&lt;", "<")), done.stderr


def test_sorting_filters_and_silence(page: Path) -> None:
    found, log = opened(page)
    assert found["before"] == ["b", "a", "c"]
    # The failed cell has no number and comes last, whichever way.
    assert found["rising"] == ["b", "a", "c"] and found["sort"] == "ascending"
    assert found["falling"] == ["a", "b", "c"] and found["names"] == ["a", "b", "c"]
    assert found["all"] == 20
    assert (found["broken"], found["robust"], found["split"]) == (19, 1, 4)
    assert found["other"] == 0
    assert "CONSOLE" not in log


def test_both_colour_schemes(page: Path) -> None:
    light, _ = opened(page, "--blink-settings=preferredColorScheme=1")
    dark, log = opened(page, "--blink-settings=preferredColorScheme=0")
    assert light["colour"] == "rgb(255, 255, 255)" and dark["colour"] == "rgb(15, 19, 23)"
    # The figures follow.
    assert light["ink"] == "rgb(27, 31, 36)" and dark["ink"] == "rgb(230, 233, 237)"
    assert "CONSOLE" not in log


def test_a_phone_scrolls_tables_not_the_page(page: Path) -> None:
    found, _ = opened(page, "--window-size=500,900")
    assert found["wide"] is False
