"""From findings at every radius to one verdict about a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import xarray as xr

from unmask import statistics
from unmask.verdict.comparison import COMPARISONS, Finding
from unmask.verdict.convergence import Overlooked, SearchNotConverged
from unmask.verdict.evidence import (
    FEWEST_SAMPLES,
    LARGEST_P_VALUE,
    SMALLEST_EFFECT,
    WEAKEST_SEARCH,
    Radius,
    radii,
)
from unmask.verdict.families import AttackRow
from unmask.verdict.gradients import GRADIENT_FAULTS, SLOPE_FAULTS
from unmask.verdict.randomness import randomness
from unmask.verdict.record import Indicator, Label, Verdict
from unmask.verdict.searches import SEARCH_COMPARISONS
from unmask.verdict.wide_radii import AboveChance, RisesWithEpsilon

__all__ = ["SOURCES", "Source", "judge"]


class Source(Protocol):
    """Something to look for in a result of one model."""

    @property
    def name(self) -> str:
        """Of the indicator."""
        ...

    @property
    def advice(self) -> str:
        """What it means when it fires."""
        ...

    @property
    def evidence(self) -> bool:
        """Whether it then speaks for masking."""
        ...

    def look(self, places: Sequence[Radius]) -> Iterable[Finding]:
        """What is found at the radii above zero, in ascending order."""
        ...

    def why_not(self, places: Sequence[Radius], front_end: bool) -> str:
        """What to add, when nothing could be looked at."""
        ...


SOURCES: tuple[Source, ...] = (
    *COMPARISONS,
    *SEARCH_COMPARISONS,
    *GRADIENT_FAULTS,
    *SLOPE_FAULTS,
    AboveChance(),
    RisesWithEpsilon(),
    SearchNotConverged(),
    Overlooked(),
)
"""Every indicator but randomness, in the order of reports."""

_BETTER = {source.name for source in COMPARISONS} | {source.name for source in SEARCH_COMPARISONS}
"""Indicators whose attack did better than those it was compared with."""


def judge(results: xr.Dataset) -> Verdict:
    """The verdict about one model.

    ``masked`` when an indicator of masking fired at some radius above zero: an effect of at least
    `SMALLEST_EFFECT` with a p-value, adjusted by Holm for all tests made on the model, below
    `LARGEST_P_VALUE`. ``no-sign`` when none did although, at every radius and on at least `FEWEST_SAMPLES`
    clean-correct samples, a white-box attack was compared with another kind, or left so little standing that
    nothing could be masked, and the gradient attacks had converged. ``inconclusive`` otherwise.

    Args:
        results: A result for one model: Dataset over (attack, epsilon, sample).
    """
    places, front_end = list(radii(results)), bool(results["front_end"].item())
    found = [(source, finding) for source in SOURCES for finding in source.look(places)]
    adjusted = statistics.holm([finding.p_value for _, finding in found])
    indicators = []
    for source in SOURCES:
        own = [(f, p) for (origin, f), p in zip(found, adjusted, strict=True) if origin is source]
        indicators.append(_strongest(source, own, places, front_end))
    indicators.append(randomness(results))

    if any(i.fired and i.evidence for i in indicators):
        return Verdict("masked", tuple(indicators), _advice_when_masked(indicators))
    label, advice = _silence(places, [finding for _, finding in found])
    unfinished = next(i for i in indicators if i.name == SearchNotConverged.name)
    if label == "no-sign" and unfinished.fired:
        label, advice = "inconclusive", unfinished.advice
    return Verdict(label, tuple(indicators), advice)


def _strongest(
    source: Source,
    findings: Sequence[tuple[Finding, float]],
    places: Sequence[Radius],
    front_end: bool,
) -> Indicator:
    """The finding that fires, or comes nearest to it, as the indicator."""
    if not findings:
        return Indicator(
            name=source.name, fired=False, advice=source.why_not(places, front_end), evidence=source.evidence
        )
    fires = [(f, p) for f, p in findings if f.effect >= SMALLEST_EFFECT and p < LARGEST_P_VALUE]
    finding, p_value = max(fires or findings, key=lambda pair: (pair[0].effect, -pair[1]))
    return Indicator(
        name=source.name,
        fired=bool(fires),
        effect=finding.effect,
        p_value=p_value,
        samples=finding.samples,
        advice=source.advice if fires else "Looked for and not seen.",
        epsilon=finding.epsilon,
        attack=finding.attack,
        evidence=source.evidence,
    )


def _advice_when_masked(indicators: Sequence[Indicator]) -> str:
    """The attack that did better where there is one, else what kind to run."""
    named = [i for i in indicators if i.fired and i.name in _BETTER]
    if not named:
        return (
            "Do not trust the accuracy under gradient attacks: attack this model without its gradients "
            "(score-based, transfer or bypass)."
        )
    best = max(named, key=lambda i: i.effect)
    return (
        f"Do not trust the accuracy under gradient attacks: judge this model by '{best.attack}' and by the "
        "worst case over all attacks."
    )


def _left(place: Radius, white: Sequence[AttackRow]) -> float:
    """What the white-box attacks leave standing, of the samples they were run on; 1 where there are none."""
    correct = place.correct(white)
    known = correct[~np.isnan(correct)]
    return float(known.mean()) if len(known) else 1.0


def _silence(places: Sequence[Radius], findings: Sequence[Finding]) -> tuple[Label, str]:
    """What it means that nothing fired."""
    if not places:
        return "inconclusive", "Evaluate at a radius above zero."
    samples = places[0].samples
    if samples == 0:
        return "inconclusive", "No sample was right when clean, or its answers are not known."
    if samples < FEWEST_SAMPLES:
        return "inconclusive", (
            f"Only {samples} samples were right when clean; evaluate enough for at least "
            f"{FEWEST_SAMPLES} of them."
        )
    comparisons = {comparison.name for comparison in COMPARISONS}
    open_places = []
    for place in places:
        white = place.of("white-box")
        compared = any(
            f.epsilon == place.epsilon and f.name in comparisons and f.samples >= FEWEST_SAMPLES
            for f in findings
        )
        broken = bool(white) and _left(place, white) < SMALLEST_EFFECT
        if not compared and not broken:
            open_places.append(place)
    if not open_places:
        return (
            "no-sign",
            "Nothing speaks for masked gradients; the worst case over the attacks is what to report.",
        )
    if not any(place.of("white-box") for place in open_places):
        return "inconclusive", "Add a gradient attack such as 'pgd', and a score-based one such as 'square'."
    few = [f.samples for f in findings if f.name in comparisons and f.samples < FEWEST_SAMPLES]
    if few:
        return "inconclusive", (
            f"What does not follow the model's own gradient was run on only {max(few)} samples that were "
            f"right when clean; give it at least {FEWEST_SAMPLES}."
        )
    if any(place.of(c.family) for place in open_places for c in COMPARISONS):
        return "inconclusive", (
            f"Give the gradient attacks at least {WEAKEST_SEARCH} steps, so that the others can be compared "
            "with them fairly."
        )
    return "inconclusive", (
        "Add an attack that does not follow the model's own gradient: 'square', 'transfer', or 'pgd' with "
        "gradient = 'finite-difference'."
    )
