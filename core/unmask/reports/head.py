"""What stands at the head of every report: without it no number may be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import xarray as xr

from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE
from unmask.reports.tables import problems
from unmask.reports.wording import epsilon_text
from unmask.results.accessor import Method
from unmask.results.layout import UNKNOWN, UNKNOWN_SEED

__all__ = [
    "AttackSettings",
    "attack_settings",
    "notes_and_warnings",
    "problem_lines",
    "provenance",
    "threat_model",
    "threat_model_sentence",
]


_METHODS = {
    "clopper-pearson": "Clopper-Pearson",
    "wilson": "Wilson",
    "t": "Student's t (Clopper-Pearson where all samples agree)",
    "bootstrap": "bootstrap over samples",
}


@attrs.frozen
class AttackSettings:
    """How one attack was set, in words.

    Attributes:
        name: Its name in the run.
        use: Its registered name.
        knows: What it sees of the model.
        settings: Its options, one after the other.
        provider: Where it comes from.
    """

    name: str
    use: str
    knows: str
    settings: str
    provider: str

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        return f"{self.use}, knows {self.knows}{'; ' + self.settings if self.settings else ''}"


def threat_model(results: xr.Dataset, level: float, method: Method = "clopper-pearson") -> dict[str, str]:
    """Threat model, samples, seed and confidence level, by term."""
    attributes = results.attrs
    low, high = json.loads(attributes.get("bounds", "[0, 1]"))
    arithmetic = f"{attributes.get('precision')} on {attributes.get('device')}"
    return {
        "norm": str(attributes.get("norm")),
        "epsilon": ", ".join(epsilon_text(e) for e in results[EPSILON].values),
        "pixels": f"in [{low:g}, {high:g}]",
        "samples": f"{results.sizes[SAMPLE]} of {attributes.get('data') or 'the given data'}",
        # Whoever publishes results does not always say how they were made.
        "seed": "unknown" if attributes.get("seed") == UNKNOWN_SEED else str(attributes.get("seed")),
        "arithmetic": "precision unknown" if attributes.get("precision") == UNKNOWN else arithmetic,
        "intervals": f"{_METHODS[method]}, {100 * level:g} %",
    }


def threat_model_sentence(results: xr.Dataset, level: float, method: Method = "clopper-pearson") -> str:
    """The same as running text."""
    terms = threat_model(results, level, method)
    return (
        f"norm {terms['norm']}, epsilon {terms['epsilon']}, pixels {terms['pixels']}. "
        f"{terms['samples'].replace(' of ', ' samples of ', 1)}, seed {terms['seed']}, "
        f"{terms['arithmetic']}. Intervals: {terms['intervals']}."
    )


def attack_settings(results: xr.Dataset) -> list[AttackSettings]:
    """Every attack with all its options."""
    found = []
    for i, name in enumerate(map(str, results[ATTACK].values)):
        here = results.isel({ATTACK: i})
        options = json.loads(str(here["settings"].item()) or "{}")
        gradient = str(here["gradient"].item())
        found.append(
            AttackSettings(
                name=name,
                use=str(here["use"].item()),
                knows=str(here["access"].item()) + (f" ({gradient})" if gradient else ""),
                settings=", ".join(f"{key} = {_value(value)}" for key, value in options.items()),
                provider=str(here["provider"].item()),
            )
        )
    return found


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} = {_value(v)}" for k, v in value.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value)


def notes_and_warnings(results: xr.Dataset) -> list[str]:
    """How randomised models were scored, then the warnings that came with the result."""
    notes = []
    single = results.attrs.get("protocol") == "single-draw"
    for kind, how in (
        ("enumerated", "exact over its members"),
        ("drawn", "estimated from {draws} fresh draws for each example"),
    ):
        for model in results[MODEL].values[results["randomness"].values == kind]:
            draws = int(results["draws"].sel({MODEL: model}))
            if single:
                notes.append(
                    f"{model} answers at random; every sample was scored by one draw (protocol single-draw)."
                )
                continue
            notes.append(
                f"{model} answers at random; its accuracy is the expected one, {how.format(draws=draws)}."
            )
    return notes + [str(warning) for warning in json.loads(results.attrs.get("warnings", "[]"))]


def problem_lines(results: xr.Dataset) -> list[str]:
    """Failed cells one by one; those that do not apply once for each model and attack."""
    lines: dict[str, list[str]] = {}
    for problem in problems(results):
        what = f"{problem.failed} of {problem.samples} samples failed" if problem.failed else "not run"
        line = f"{problem.model}, {problem.attack}: {what}: {problem.message or 'no reason was given'}"
        lines.setdefault(line, []).append(epsilon_text(problem.epsilon))
    return [f"{line} (epsilon {', '.join(radii)})" for line, radii in lines.items()]


def provenance(results: xr.Dataset) -> dict[str, str]:
    """What made the result, by term."""
    attributes = results.attrs
    versions = json.loads(attributes.get("versions", "{}"))
    found = {
        "created": str(attributes.get("created", "")),
        "Unmask": str(attributes.get("unmask_version", "")),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "sha256 of the samples": str(attributes.get("samples_sha256", "")),
        "metrics": ", ".join(m["use"] for m in json.loads(attributes.get("metrics", "[]"))),
    }
    return {term: text for term, text in found.items() if text}
