"""What changed between two runs: paired per sample, with the test."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs
import xarray as xr
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE
from unmask.errors import UserError
from unmask.reports.head import attack_settings, threat_model_sentence
from unmask.reports.wording import epsilon_text, p_value_text, percent
from unmask.results.measures import clean_accuracy, robust_accuracy, worst_case_accuracy
from unmask.results.merging import aligned_epsilons
from unmask.results.pairing import Paired, compare_paired
from unmask.statistics import holm

__all__ = ["Change", "changes", "comparison_report"]

_KEPT = ("norm", "bounds", "seed", "precision", "unmask_version", "samples_sha256")


@attrs.frozen
class Change:
    """One number of both runs.

    Attributes:
        model: The model.
        attack: The attack, ``clean`` or ``worst case``.
        epsilon: The radius.
        paired: The second run (the first of the pair) against the first run.
        adjusted: Its p-value, adjusted (Holm) for all comparisons made.
    """

    model: str
    attack: str
    epsilon: float
    paired: Paired
    adjusted: float


def changes(first: xr.Dataset, second: xr.Dataset, level: float = 0.99) -> list[Change]:
    """Every number that both runs have, on the samples that both have.

    Raises:
        UserError: The runs share no model, no sample, or call different classes the same sample's label.
    """
    before, after = _shared(first, second)
    seed = int(before.attrs.get("seed", 0))
    found: list[tuple[str, str, float, Paired]] = []

    def compared(a: xr.DataArray, b: xr.DataArray) -> Paired:
        return compare_paired(b.values.astype(float), a.values.astype(float), level, seed)

    for model in map(str, before[MODEL].values):
        old, new = before.sel({MODEL: model}), after.sel({MODEL: model})
        clean = [clean_accuracy(run).values for run in (old, new)]
        # What is known of an imported result may be the samples that were right alone.
        if not any(bool(values.isnull().any()) for values in clean):
            found.append((model, "clean", 0.0, compared(*clean)))
        right, again = robust_accuracy(old).values, robust_accuracy(new).values
        for epsilon in before[EPSILON].values.tolist():
            for attack in map(str, before[ATTACK].values):
                place = {ATTACK: attack, EPSILON: epsilon}
                found.append((model, attack, epsilon, compared(right.sel(place), again.sel(place))))
            if before.sizes[ATTACK]:
                place = {EPSILON: epsilon}
                worst = [worst_case_accuracy(run).values.sel(place) for run in (old, new)]
                found.append((model, "worst case", epsilon, compared(*worst)))
    tested = [i for i, entry in enumerate(found) if not math.isnan(entry[3].p_value)]
    adjusted = dict(zip(tested, holm([found[i][3].p_value for i in tested]), strict=True))
    return [Change(*entry, adjusted.get(i, math.nan)) for i, entry in enumerate(found)]


def _shared(first: xr.Dataset, second: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    before, after = aligned_epsilons([first, second])
    common = {
        d: [v for v in before[d].values.tolist() if v in set(after[d].values.tolist())]
        for d in (MODEL, ATTACK, EPSILON, SAMPLE)
    }
    for dimension in (MODEL, SAMPLE):
        if not common[dimension]:
            here, there = (", ".join(map(str, run[dimension].values[:5])) for run in (before, after))
            raise UserError(f"the two runs share no {dimension}: {here} and {there}.")
    before, after = before.sel(common), after.sel(common)
    if not bool((before["label"].values == after["label"].values).all()):
        raise UserError("the two runs have other labels for the same samples; they are not of one data set.")
    if before.attrs.get("norm") != after.attrs.get("norm"):
        raise UserError(
            f"the runs have different norms, {before.attrs.get('norm')} and {after.attrs.get('norm')}; their "
            "radii cannot be compared."
        )
    return before, after


def comparison_report(
    first: xr.Dataset, second: xr.Dataset, names: tuple[str, str], level: float = 0.99
) -> Group:
    """The comparison as something a `rich.console.Console` prints.

    Args:
        first: The earlier run.
        second: The later one.
        names: What to call them.
        level: Confidence level of the intervals.

    Raises:
        UserError: As `changes`.
    """
    return Group(*_parts(first, second, names, level))


def _parts(
    first: xr.Dataset, second: xr.Dataset, names: tuple[str, str], level: float
) -> Iterator[RenderableType]:
    found = changes(first, second, level)
    for letter, name, run in zip("AB", names, (first, second), strict=True):
        yield Text(f"{letter}: {name}. {threat_model_sentence(run, level)}")
    for dimension in (MODEL, ATTACK, EPSILON, SAMPLE):
        here, there = first[dimension].values.tolist(), second[dimension].values.tolist()
        for letter, only in (("A", set(here) - set(there)), ("B", set(there) - set(here))):
            if only and dimension != EPSILON:
                listed = f"{len(only)} samples" if dimension == SAMPLE else ", ".join(sorted(map(str, only)))
                yield Text(f"only in {letter}: {dimension} {listed}")
    yield from _differences(first, second)
    table = Table(title=Text("Accuracy in %, B minus A, paired per sample"), title_justify="left")
    for column in ("model", "attack", "epsilon", "A", "B", "change, points", "A alone / B alone", "p (Holm)"):
        table.add_column(column, justify="left" if column in ("model", "attack") else "right")
    for change in found:
        pair = change.paired
        if not pair.samples:
            table.add_row(change.model, change.attack, epsilon_text(change.epsilon), *["-"] * 5)
            continue
        alone = "-" if math.isnan(pair.only_first) else f"{pair.only_second:g} / {pair.only_first:g}"
        table.add_row(
            Text(change.model),
            Text(change.attack),
            epsilon_text(change.epsilon),
            percent(pair.second),
            percent(pair.first),
            f"{100 * pair.difference:+.1f} [{100 * pair.lower:+.1f}, {100 * pair.upper:+.1f}]",
            alone,
            p_value_text(change.adjusted),
        )
    yield Text("")
    yield table
    compared = max((change.paired.samples for change in found), default=0)
    tests = sorted({change.paired.test for change in found if change.paired.samples})
    yield Text(
        f"{compared} samples. Tests: {'; '.join(tests)}, two-sided. Intervals of the change at "
        f"{100 * level:g} %, conservative."
    )


def _differences(first: xr.Dataset, second: xr.Dataset) -> Iterator[RenderableType]:
    """Settings that changed between the runs: whoever reads a difference must know them."""
    for attribute in _KEPT:
        here, there = (str(run.attrs.get(attribute, "")) for run in (first, second))
        if here != there:
            yield Text(f"{attribute}: A {here or '-'}, B {there or '-'}")
    old = {a.name: a.sentence for a in attack_settings(first)}
    new = {a.name: a.sentence for a in attack_settings(second)}
    for name in old:
        if name in new:
            if old[name] == new[name]:
                yield Text(f"attack {name}: {old[name]}")
            else:
                yield Text(f"attack {name}: A {old[name]}\n  B {new[name]}")
    for label, run in (("A", first), ("B", second)):
        for model, verdict in run.unmask.verdict().items():
            yield Text(f"verdict {label}, {model}: {verdict.label}")
