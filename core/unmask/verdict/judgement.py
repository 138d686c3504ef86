"""From findings at every radius to one verdict about a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from unmask import statistics
from unmask.verdict.comparison import COMPARISONS, Comparison, Finding
from unmask.verdict.evidence import (
    FEWEST_SAMPLES,
    LARGEST_P_VALUE,
    SMALLEST_EFFECT,
    WEAKEST_SEARCH,
    Radius,
    radii,
)
from unmask.verdict.gradients import GRADIENT_FAULTS, GradientFault
from unmask.verdict.randomness import randomness
from unmask.verdict.record import Indicator, Label, Verdict

__all__ = ["judge"]


def judge(results: xr.Dataset) -> Verdict:
    """The verdict about one model.

    ``masked`` when an indicator of masking fired at some radius above zero: an effect of at least
    `SMALLEST_EFFECT` with a p-value, adjusted by Holm for all tests made on the model, below
    `LARGEST_P_VALUE`. ``no-sign`` when none did although, at every radius and on at least `FEWEST_SAMPLES`
    clean-correct samples, a white-box attack was compared with another kind, or left so little standing that
    nothing could be masked. ``inconclusive`` otherwise.

    Args:
        results: A result for one model: Dataset over (attack, epsilon, sample).
    """
    places, front_end = list(radii(results)), bool(results["front_end"].item())
    sources: tuple[Comparison | GradientFault, ...] = (*COMPARISONS, *GRADIENT_FAULTS)
    found = [
        (source, finding) for source in sources for place in places for finding in source.findings(place)
    ]
    adjusted = statistics.holm([finding.p_value for _, finding in found])
    indicators = []
    for source in sources:
        own = [(f, p) for (origin, f), p in zip(found, adjusted, strict=True) if origin is source]
        if not own and isinstance(source, Comparison) and source.family == "bypass" and not front_end:
            advice = "It has no front end that could be left out of the backward pass."
            indicators.append(Indicator(name=source.name, fired=False, advice=advice))
        else:
            indicators.append(_strongest(source, own, places))
    indicators.append(randomness(results))

    if any(i.fired and i.evidence for i in indicators):
        return Verdict("masked", tuple(indicators), _advice_when_masked(indicators))
    label, advice = _silence(places, [finding for _, finding in found])
    return Verdict(label, tuple(indicators), advice)


def _strongest(
    source: Comparison | GradientFault, findings: Sequence[tuple[Finding, float]], places: Sequence[Radius]
) -> Indicator:
    """The finding that fires, or comes nearest to it, as the indicator."""
    if not findings:
        return Indicator(name=source.name, fired=False, advice=_why_not_looked_at(source, places))
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
    )


def _why_not_looked_at(source: Comparison | GradientFault, places: Sequence[Radius]) -> str:
    if not any(place.of("white-box") for place in places):
        return "Add a gradient attack such as 'pgd' for the others to be compared with."
    if isinstance(source, Comparison) and any(place.of(source.family) for place in places):
        return f"Give the gradient attacks at least {WEAKEST_SEARCH} steps, so that the comparison is fair."
    return source.missing


def _advice_when_masked(indicators: Sequence[Indicator]) -> str:
    best = max((i for i in indicators if i.fired and i.evidence), key=lambda i: i.effect)
    return (
        f"Do not trust the accuracy under gradient attacks: judge this model by '{best.attack}' and by the "
        "worst case over all attacks."
        if best.name not in {fault.name for fault in GRADIENT_FAULTS}
        else "Do not trust the accuracy under gradient attacks: attack this model without its gradients "
        "(score-based, transfer or bypass)."
    )


def _silence(places: Sequence[Radius], findings: Sequence[Finding]) -> tuple[Label, str]:
    """What it means that nothing fired."""
    if not places:
        return "inconclusive", "Evaluate at a radius above zero."
    samples = places[0].samples
    if samples < FEWEST_SAMPLES:
        return "inconclusive", (
            f"Only {samples} samples were right when clean; evaluate enough for at least "
            f"{FEWEST_SAMPLES} of them."
        )
    comparisons = {comparison.name for comparison in COMPARISONS}
    open_places = []
    for place in places:
        white = place.of("white-box")
        compared = any(f.epsilon == place.epsilon and f.name in comparisons for f in findings)
        broken = bool(white) and float(np.mean(place.correct(white))) < SMALLEST_EFFECT
        if not compared and not broken:
            open_places.append(place)
    if not open_places:
        return (
            "no-sign",
            "Nothing speaks for masked gradients; the worst case over the attacks is what to report.",
        )
    if not any(place.of("white-box") for place in open_places):
        return "inconclusive", "Add a gradient attack such as 'pgd', and a score-based one such as 'square'."
    if any(place.of(c.family) for place in open_places for c in COMPARISONS):
        return "inconclusive", (
            f"Give the gradient attacks at least {WEAKEST_SEARCH} steps, so that the others can be compared "
            "with them fairly."
        )
    return "inconclusive", (
        "Add an attack that does not follow the model's own gradient: 'square', 'transfer', or 'pgd' with "
        "gradient = 'finite-difference'."
    )
