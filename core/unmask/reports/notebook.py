"""How verdicts, manifests and attacks look in a notebook."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unmask.reports.wording import HEADINGS, epsilon_text, indicator_text

if TYPE_CHECKING:
    from unmask.configured import ConfiguredAttack
    from unmask.manifest.spec import Manifest
    from unmask.verdict.record import Verdict

__all__ = ["attack_html", "manifest_html", "verdicts_html"]

_COLOURS = {"masked": "#c62828", "no-sign": "#2e7d32", "inconclusive": "#b26a00"}
"""Readable on white and on black."""


def verdicts_html(verdicts: Mapping[str, Verdict]) -> str:
    """A table with a row for each model: the verdict, what fired and the advice."""
    rows = []
    for model, verdict in verdicts.items():
        label = f'<b style="color: {_COLOURS[verdict.label]}">{html.escape(HEADINGS[verdict.label])}</b>'
        fired = "<br>".join(html.escape(indicator_text(indicator)) for indicator in verdict.fired) or "-"
        rows.append([html.escape(model), label, fired, html.escape(verdict.advice)])
    return _table(["model", "verdict", "what was seen", "what to do"], rows)


def manifest_html(manifest: Manifest) -> str:
    """What is attacked, by what and under which threat model, and the text to unfold."""
    radii = ", ".join(map(epsilon_text, manifest.epsilons))
    rows = [
        ["threat model", html.escape(f"{manifest.norm}, epsilon {radii}")],
        ["data", html.escape(manifest.data.use)],
        ["models", html.escape(", ".join(manifest.models))],
        ["attacks", html.escape(", ".join(manifest.attacks))],
        ["seed", str(manifest.seed)],
    ]
    text = f"<details><summary>TOML</summary><pre>{html.escape(manifest.text)}</pre></details>"
    return f"<b>{html.escape(manifest.name)}</b>{_table([], rows)}{text}"


def attack_html(attack: ConfiguredAttack) -> str:
    """What the attack is, and every option with its value."""
    entry = attack.entry
    facts = f"{', '.join(entry.norms)}; by {attack.access}; {entry.search}"
    rows = [[html.escape(key), html.escape(_value(value))] for key, value in attack.table().items()]
    head = f"<b>{html.escape(attack.use)}</b> {html.escape(entry.summary)}<br>{html.escape(facts)}"
    source = f"<br><small>{html.escape(entry.reference)}</small>" if entry.reference else ""
    return f"{head}{source}{_table(['option', 'value'], rows[1:])}"


def _value(value: Any) -> str:
    """An option's value as a manifest would write it, without quotes."""
    if isinstance(value, dict) and set(value) == {"use"}:
        value = value["use"]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        style = ' style="text-align: left; vertical-align: top"'
        return "<tr>" + "".join(f"<{tag}{style}>{cell}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return f"<table>{row(heads, 'th') if heads else ''}{body}</table>"
