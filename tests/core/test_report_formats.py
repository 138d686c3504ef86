"""Markdown, LaTeX, JSON and HTML say the same numbers, with what must be known to read them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import typer
import xarray as xr
from typer.testing import CliRunner

from unmask.cli.report import FORMATS, report
from unmask.errors import UserError
from unmask.reports.figures import picture
from unmask.reports.latex import render_latex
from unmask.reports.markdown import render_markdown
from unmask.reports.page import render_html
from unmask.reports.structured import report_data
from unmask.results import CellOutcome, save

SCHEMA = Path(__file__).parents[2] / "docs" / "report-schema.json"
app = typer.Typer()
app.command("report")(report)
VOID = {"meta", "link", "img", "br", "hr", "input"}


@pytest.fixture(scope="module")
def results(
    make_results: Callable[..., xr.Dataset],
    make_cell: Callable[..., CellOutcome],
    make_clean: Callable[..., object],
) -> xr.Dataset:
    n = 60
    images = np.full((n, 1, 2, 2), 0.5, dtype=np.float32)
    known = {"label_probability": np.full(n, 0.75), "squared_probability": np.full(n, 0.6)}

    def share(rate: float) -> CellOutcome:
        right = (np.arange(n) < rate * n).astype(float)
        return make_cell(right, adversarial=images + 0.1, **known)

    clean = {m: make_clean(np.ones(n), **known) for m in ("plain_1", "<b>&%$#</b>")}
    ds = make_results(
        clean,
        {
            ("plain_1", "pgd", 8 / 255): share(0.0),
            ("plain_1", "square", 8 / 255): share(0.05),
            ("<b>&%$#</b>", "pgd", 8 / 255): share(0.75),
            ("<b>&%$#</b>", "square", 8 / 255): CellOutcome.failed(n, "out | of </script> memory"),
        },
        title="a_title & more",
        warnings=("Mind the 100 % gap.",),
        seed=11,
    )
    places = ("model", "sample")
    return ds.assign(
        image=(("sample", "channel", "height", "width"), images),
        certified_radius=(places, np.full((2, n), 0.3), {"sigma": 0.25, "n": 100, "n0": 10, "alpha": 0.001}),
        certified_prediction=(places, np.tile(np.arange(n) % 10, (2, 1))),
        certificate_checked=(places, np.zeros((2, n), dtype=bool)),
        certificate_contradicted=(places, np.zeros((2, n), dtype=bool)),
        correct_quantized=ds["correct"],
    )


class Page(HTMLParser):
    """Keeps the text, and fails on tags that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.links += [v or "" for k, v in attributes if k in ("src", "href", "xlink:href")]

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.links += [v or "" for k, v in attributes if k in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_every_format_says_what_must_be_known(results: xr.Dataset) -> None:
    page = Page()
    page.feed(render_html(results))
    html = " ".join(" ".join(page.words).split())
    latex = render_latex(results).replace(r"\%", "%")
    for text in (render_markdown(results), latex, html):
        for part in ("linf", "8/255", "seed", "11", "60", "Clopper-Pearson, 99 %", "steps = 50"):
            assert part in text
        for part in ("Mind the 100 % gap.", "75.0", "60 of 60 samples failed"):
            assert part in text
        # 45 of 60 at 99 %.
        assert "58.2" in text and "87.7" in text


def test_markdown_is_whole(results: xr.Dataset) -> None:
    text = render_markdown(results, level=0.9)
    assert "Clopper-Pearson, 90 %" in text
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert len(tables) == 7
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1
    assert r"\<b\>&%$\#\</b\>" in text and r"out \| of \</script\> memory" in text
    assert text.index("NO SIGN OF MASKING") < text.index("## Threat model") < text.index("## Accuracy")


def test_latex_is_whole(results: xr.Dataset) -> None:
    text = render_latex(results)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 1
    for rule in ("toprule", "midrule", "bottomrule"):
        assert f"\\{rule}" in text
    assert r"plain\_1" in text and r"\textless{}b\textgreater{}\&\%\$\#" in text
    assert r"\textbf{75.0} {\scriptsize [58.2, 87.7]}" in text and r"& 0.0 {\scriptsize" in text
    # Nothing but an escaped sign, a command or a group may hold LaTeX's special characters.
    body = re.sub(r"^%.*$|\\[%&#_${}]", "", text, flags=re.MULTILINE)
    assert not re.search(r"[%#_$^]", body.replace("{!}{%", "{!}{"))
    depth = 0
    for sign in re.sub(r"\\[{}]", "", text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0


def latex_rows(text: str) -> list[list[list[str]]]:
    """Every tabular's lines of cells, `multicolumn` filling as many places as it spans."""
    tables = []
    for width, body in re.findall(r"\\begin\{tabular\}\{(l?r*)\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        rows = []
        for line in body.replace(r"\\", "\0").split("\0")[:-1]:
            line = re.sub(r"\\(?:top|mid|bottom)rule|\\cmidrule\(lr\)\{\d+-\d+\}", "", line)
            cells = []
            for cell in re.split(r"(?<!\\)&", line):
                spanning = re.search(r"\\multicolumn\{(\d+)\}\{c\}\{(.*)\}", cell)
                cells += [spanning[2]] * int(spanning[1]) if spanning else [cell.strip()]
            assert len(cells) == len(width)
            rows.append(cells)
        tables.append(rows)
    return tables


def test_latex_puts_the_stages_of_a_suite_under_its_name(
    make_results: Callable[..., xr.Dataset], make_cell: Callable[..., CellOutcome]
) -> None:
    attacks = ("fgsm", "aa/pgd", "aa/square", "square")
    ds = make_results(
        {"a": [1.0] * 10, "b": [1.0] * 10},
        {
            (model, attack, epsilon): [1.0] * right + [0.0] * (10 - right)
            for model, less in (("a", 0), ("b", 1))
            for epsilon in (0.1, 8 / 255)
            for attack, right in zip(attacks, (8 - less, 6, 5 - less, 5 - less), strict=True)
        },
    )
    order = list(map(str, ds["attack"].values))
    tables = latex_rows(render_latex(ds, level=0.95, interval="t"))
    assert len(tables) == 2
    for suites, names, *models in tables:
        assert suites == ["", "", *("aa, after" if "/" in a else "" for a in order), ""]
        assert names == ["model", "clean", *(a.removeprefix("aa/") for a in order), "worst case"]
        cell = dict(zip(names, models[0], strict=True))
        # Eight of ten at 95 %: 2.262 (Student's t, 9 degrees of freedom) times sqrt(0.16 / 9).
        assert cell["fgsm"] == r"\textbf{80.0} {\scriptsize \ensuremath{\pm}30.2}"
        # All ten right: no t interval has a width there. Both models agree: no best.
        assert cell["clean"] == r"100.0 {\scriptsize [69.2, 100.0]}"
        assert not cell["pgd"].startswith(r"\textbf")
        assert models[1][0] == "b" and not any("textbf" in c for c in models[1])


def test_the_intervals_of_latex_can_be_chosen_and_of_nothing_else(
    results: xr.Dataset, tmp_path: Path
) -> None:
    file = tmp_path / "results.nc"
    save(results, file)
    run = CliRunner().invoke
    shown = run(app, [str(file), "--format", "latex", "--interval", "t", "--level", "0.95"])
    assert shown.exit_code == 0 and "Student's t" in shown.output and r"\ensuremath{\pm}" in shown.output
    with pytest.raises(UserError, match="--interval: goes with --format latex"):
        run(app, [str(file), "--interval", "t"], catch_exceptions=False)
    with pytest.raises(UserError, match=r"'wilsn' is unknown.*wilson"):
        run(app, [str(file), "--format", "latex", "--interval", "wilsn"], catch_exceptions=False)


def test_json_keeps_to_its_published_schema(
    results: xr.Dataset, make_results: Callable[..., xr.Dataset]
) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    jsonschema.Draft202012Validator.check_schema(schema)
    data = report_data(results)
    validator.validate(data)
    cell = data["cells"][0]
    assert cell["calibration"]["brier_score"] == pytest.approx(0.6 - 2 * 0.75 + 1)
    assert cell["robust_accuracy_8bit"] == 0
    assert data["models"]["plain_1"]["certified_accuracy"][-1]["value"] == 1
    assert data["distortion"][0]["median"] == pytest.approx(8 / 255)
    bare = report_data(make_results({"m": [1]}, {("m", "pgd", 0.0): [1]}))
    validator.validate(bare)
    assert bare["models"]["m"]["clean_calibration"] == {}
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**data, "level": 99})


def test_the_page_is_one_file(results: xr.Dataset) -> None:
    html = render_html(results)
    page = Page()
    page.feed(html)
    assert page.open == []
    assert all(link.startswith(("data:", "#")) for link in page.links)
    assert not re.search(r"https?://(?!www\.w3\.org)", html)
    assert "<b>&%$#</b>" not in html and "&lt;b&gt;&amp;%$#&lt;/b&gt;" in html
    assert "of </script> memory" not in html
    sections = ("verdict", "settings", "accuracy", "figures", "measures", "gallery", "explorer", "provenance")
    for section in sections:
        assert f'id="{section}"' in html
    order = [html.index(f'id="{s}"') for s in ("verdict", "settings", "accuracy", "provenance")]
    assert order == sorted(order)
    assert html.count("currentColor") > 50 and "#010203" not in html
    identifiers = re.findall(r'\bid="([^"]+)"', html)
    assert len(identifiers) == len(set(identifiers))


def test_the_explorer_holds_every_outcome(results: xr.Dataset) -> None:
    html = render_html(results)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    data = json.loads(found[1])
    assert data["samples"][0] == 1000 and data["total"] == 60
    assert data["correct"][1][0][0][:2] == [1, 1] and data["correct"][1][1][0][0] is None
    assert data["meanings"][data["status"][1][1][0][0]] == "failed"


def test_pictures() -> None:
    import base64
    import io

    from PIL import Image

    def pixels(image: np.ndarray, low: float = 0, high: float = 1) -> np.ndarray:  # type: ignore[type-arg]
        content = base64.b64decode(picture(image, low, high).removeprefix("data:image/png;base64,"))
        return np.asarray(Image.open(io.BytesIO(content)))

    assert pixels(np.array([[[0.0, 1.0], [0.5, 2.0]]])).tolist() == [[0, 255], [128, 255]]
    assert pixels(np.array([[[1.0]], [[0.0]], [[-1.0]]]), -1, 1).tolist() == [[[255, 128, 0]]]
    assert pixels(np.ones((5, 2, 3))).shape == (2, 3)


def test_command_knows_every_format(results: xr.Dataset, tmp_path: Path) -> None:
    path = save(results, tmp_path / "results.nc")
    for name in FORMATS:
        out = tmp_path / name
        done = CliRunner().invoke(app, [str(path), "--format", name, "-o", str(out)])
        assert done.exit_code == 0, done.exception
        assert "a" in out.read_text(encoding="utf-8") and out.stat().st_size > 1000
