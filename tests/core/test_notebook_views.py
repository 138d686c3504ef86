"""What a notebook shows: progress as it goes, verdicts and manifests as tables."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import unmask
from unmask.evaluation.shown_progress import NotebookProgress, in_notebook, shown
from unmask.manifest.reading import parse_manifest
from unmask.verdict import Indicator, Verdict, Verdicts


class _Cells(HTMLParser):
    """The texts of a table's cells; also that every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


def test_verdicts_are_a_table_that_quotes_names():
    indicator = Indicator("black-box-beats-white-box", True, 0.6, 1e-9, 195, "Advice.", 8 / 255, "square")
    masked = Verdict("masked", (indicator,), "Do not trust it.")
    verdicts = Verdicts({"<b>": masked, "b": Verdict("no-sign", ())})
    cells = _Cells(verdicts._repr_html_()).cells
    assert cells[4:6] == ["<b>", "MASKED"] and cells[7] == "Do not trust it."
    assert cells[6] == "black box beats white box (square, epsilon 8/255): 60.0 % of 195 samples, p < 0.0001"
    assert cells[8:11] == ["b", "NO SIGN OF MASKING", "-"]
    assert "MASKED" in _Cells(verdicts["<b>"]._repr_html_()).cells


def test_results_give_such_a_table(make_results):
    results = make_results({"a": np.ones(60)}, {("a", "pgd"): np.zeros(60)})
    verdicts = results.unmask.verdict()
    assert isinstance(verdicts, dict) and list(verdicts) == ["a"]
    assert "a" in _Cells(verdicts._repr_html_()).cells


def test_a_manifest_shows_its_threat_model_and_its_text():
    text = (
        'epsilons = ["8/255"]\n[data]\nuse = "digits"\n[models.m]\nuse = "small-cnn"\n'
        '[attacks.p]\nuse = "pgd" # <&>\n'
    )
    shown_as = parse_manifest(text)._repr_html_()
    assert _Cells(shown_as).cells[:2] == ["threat model", "linf, epsilon 8/255"]
    assert "# &lt;&amp;&gt;" in shown_as


class _Handle:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def update(self, html) -> None:
        self.seen.append(html)


@pytest.fixture
def notebook(monkeypatch):
    """A Jupyter kernel, as far as it matters: what is displayed is collected."""
    handle = _Handle()

    def display(html, display_id):
        handle.update(html)
        return handle

    ipython, displaying = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    displaying.HTML, displaying.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displaying)
    return handle


def test_progress_in_a_notebook_is_one_line_that_changes(notebook, known):
    model, images, labels = known.linear_problem(12)
    unmask.evaluate({"m": model}, images, labels, {"fgsm": "fgsm", "pgd": "pgd"}, [0.1, 0.2], progress=True)
    assert "0 of 4 cells" in notebook.seen[0]
    assert "pgd on m, ε 0.2" in notebook.seen[-3]
    assert '<progress value="4" max="4">' in notebook.seen[-1] and notebook.seen[-1].endswith("forwards")
    _Cells(notebook.seen[-1])


def test_warnings_stay_and_are_quoted(notebook):
    view = NotebookProgress()
    view.begin(1)
    view.warn("<cell>")
    view.finished(reused=True)
    assert "1 of 1" in view.text and "warning: &lt;cell&gt;" in view.text


def test_true_is_bars_elsewhere_and_none_is_silence(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    with shown(True) as bars:
        assert type(bars).__name__ == "ProgressView"
    for nothing in (None, False):
        with shown(nothing) as silent:
            assert type(silent).__name__ == "Silent"
    given = object()
    with shown(given) as view:
        assert view is given
