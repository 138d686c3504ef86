"""How numbers, radii and verdicts are put into words, the same in every report."""

from __future__ import annotations

import math

import xarray as xr

from unmask.dimensions import ATTACK, EPSILON, MODEL, Status
from unmask.verdict import Indicator, Verdict

__all__ = ["epsilon_text", "indicator_text", "interval_text", "p_value_text", "percent", "verdict_headline"]

HEADINGS = {"masked": "MASKED", "no-sign": "NO SIGN OF MASKING", "inconclusive": "INCONCLUSIVE"}


_USELESS = "that attack was blind: the model's gradients are useless"
_BLIND = {
    "zero-gradients": _USELESS,
    "non-finite-gradients": _USELESS,
    "vanishing-gradients": "that attack was blind: the model's gradients have all but vanished",
    "exploding-gradients": "that attack was led astray: the model's gradients say nothing about its answers",
    "accuracy-above-chance": "with so much room any attack that is not misled erases the image",
    "accuracy-rises-with-epsilon": "with less room the same attack broke more, so it was misled",
}
_SETTINGS = {
    "loss-saturation": "With a loss that does not depend on the scale of its logits",
    "averaging-beats-single-draws": "With gradients averaged over its randomness",
}


def percent(rate: float) -> str:
    """A fraction in per cent with one decimal; a dash where there is none."""
    return "-" if math.isnan(rate) else f"{100 * rate:.1f}"


def interval_text(lower: float, upper: float) -> str:
    """Both ends in per cent; empty where there is no interval."""
    return "" if math.isnan(lower) else f"{100 * lower:.1f}-{100 * upper:.1f}"


def epsilon_text(epsilon: float) -> str:
    """A radius as it is usually written: in 255ths where that is a whole number and no short decimal is."""
    steps, decimal = epsilon * 255, f"{epsilon:.6g}"
    if len(decimal) > 5 and epsilon < 1 and abs(steps - round(steps)) < 1e-9:
        return f"{round(steps)}/255"
    return decimal


def p_value_text(p_value: float) -> str:
    """A p-value, with those below a ten-thousandth as such."""
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"


def indicator_text(indicator: Indicator) -> str:
    """An indicator with its numbers, in one line."""
    name = indicator.name.replace("-", " ")
    if not indicator.evidence and math.isnan(indicator.p_value):
        return name
    if not indicator.samples or math.isnan(indicator.effect):
        return f"{name}: not looked at"
    numbers = [f"{percent(indicator.effect)} % of {indicator.samples} samples"]
    if not math.isnan(indicator.p_value):
        numbers.append(p_value_text(indicator.p_value))
    where = f" ({indicator.attack}, epsilon {epsilon_text(indicator.epsilon)})" if indicator.attack else ""
    return f"{name}{where}: {', '.join(numbers)}"


def verdict_headline(results: xr.Dataset, model: str, verdict: Verdict) -> str:
    """One sentence that a layman understands, about the largest radius or the one that gave it away."""
    worst = results.unmask.worst_case().sel({MODEL: model})
    if verdict.label == "masked":
        shown = max((i for i in verdict.fired if i.evidence), key=lambda i: i.effect)
        rate = _rate_under(results, model, shown)
        place = f"at epsilon {epsilon_text(shown.epsilon)}"
        if shown.name in _BLIND:
            return (
                f"its robustness is not to be believed. Under '{shown.attack}' {place} it still looks "
                f"{percent(rate)} % accurate, but {_BLIND[shown.name]}."
            )
        if shown.name in _SETTINGS:
            return (
                f"its robustness is not real. {_SETTINGS[shown.name]}, the same attack ('{shown.attack}') "
                f"{place} leaves {percent(rate)} % accuracy ({percent(shown.effect)} points less than "
                "without, on what is right when clean)."
            )
        return (
            f"its robustness is not real. Attacks that follow its gradient {place} are misled: "
            f"'{shown.attack}', which does not need that gradient, leaves {percent(rate)} % accuracy "
            f"({percent(shown.effect)} points less than they do on what is right when clean)."
        )
    radius = worst["epsilon"].values.max()
    left = float(worst.sel(epsilon=radius))
    standing = (
        f"At epsilon {epsilon_text(radius)} it keeps {percent(left)} % accuracy under the worst attack run"
    )
    if math.isnan(left):
        failed = bool((results["status"].sel({MODEL: model}) == Status.FAILED.value).any())
        what = "no attack on it came to its end" if failed else "no attack has been run on it"
        standing = f"At epsilon {epsilon_text(radius)} {what}"
    if verdict.label == "no-sign":
        return f"its score is what it seems. {standing}, and nothing suggests that a gradient misled one."
    return f"cannot be told yet. {standing}. {verdict.advice}"


def _rate_under(results: xr.Dataset, model: str, shown: Indicator) -> float:
    """Accuracy under the attack that showed it, on the samples it was run on."""
    here = results.sel({MODEL: model, ATTACK: shown.attack, EPSILON: shown.epsilon})
    ran = ~here["status"].isin([Status.FAILED.value, Status.NOT_RUN.value])
    return float(here["correct"].where(ran).mean())
