"""The measures, per sample and as rates: one definition serves the rate, its counts and its interval.

Every measure is a weighted mean over samples. Models that answer at random have a probability where the
others have 0 or 1, and the same formulas hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import numpy as np
import xarray as xr

from unmask.dimensions import ATTACK, SAMPLE, Status, is_diagnostic
from unmask.errors import UserError, suggestion

__all__ = ["MEASURES", "PerSample", "WorstCase", "complete", "measure_named", "worst_case"]


@attrs.frozen
class PerSample:
    """A measure before the mean is taken.

    Attributes:
        name: Of the measure.
        long_name: For axes and tables.
        values: Of every sample; NaN where unknown.
        weights: Of every sample; the denominator of the rate is their sum.
        proportion: Every value lies in [0, 1], so that binomial intervals apply.
    """

    name: str
    long_name: str
    values: xr.DataArray
    weights: xr.DataArray
    proportion: bool = True

    def rate(self) -> xr.DataArray:
        """The mean over samples, with coordinates `numerator` and `denominator`.

        NaN where any sample of a cell is unknown (no rate is given for a cell as if it were whole), and where
        there is nothing to divide by.
        """
        numerator = (self.values * self.weights).sum(SAMPLE, skipna=False)
        denominator = (self.weights + 0 * self.values).sum(SAMPLE, skipna=False)
        rate = (numerator / denominator.where(denominator > 0)).rename(self.name)
        rate.attrs = {"units": "1", "long_name": self.long_name}
        return rate.assign_coords(
            numerator=numerator.assign_attrs(units="1", long_name="numerator of the fraction"),
            denominator=denominator.assign_attrs(units="1", long_name="denominator of the fraction"),
        )


@attrs.frozen
class WorstCase:
    """What the whole suite leaves standing.

    Attributes:
        correct: Per (model, epsilon, sample); NaN where no attack has an outcome.
        attack: Which attack did it, "" where none lowered the sample; per (model, epsilon, sample).
        upper_bound: Per (model, epsilon): an attack failed or is unfinished, so the truth may be lower.
    """

    correct: xr.DataArray
    attack: xr.DataArray
    upper_bound: xr.DataArray


def known(results: xr.Dataset) -> xr.DataArray:
    """Samples whose outcome is known, per (model, attack, epsilon, sample)."""
    return (results["status"] != Status.FAILED) & (results["status"] != Status.NOT_RUN)


def complete(results: xr.Dataset) -> xr.DataArray:
    """Cells in which every sample has an outcome, per (model, attack, epsilon)."""
    return known(results).all(SAMPLE)


def absent(results: xr.Dataset) -> xr.DataArray:
    """Cells that were not run at all, per (model, attack, epsilon)."""
    return (results["status"] == Status.NOT_RUN).all(SAMPLE)


def worst_case(results: xr.Dataset, attacks: xr.DataArray | None = None) -> WorstCase:
    """The worst outcome of every sample over the attacks (all, or those of a mask over attack).

    The attack is chosen by `screening` and reported by `correct`. For models scored by draws the two are
    independent, so choosing the unluckiest of many attacks does not make the luck part of the score: a coin
    that is right with probability p keeps p. For the others they are equal, and this is the minimum.

    Attacks that were not run are left out. Samples of a failed cell are left out too, and the number is then
    an upper bound. What a run added for its verdict counts where it was run, and is not missed elsewhere.
    """
    chosen = results if attacks is None else results.isel({ATTACK: np.flatnonzero(attacks.values)})
    if not chosen.sizes[ATTACK]:
        nothing = results["correct"].isel({ATTACK: 0}, drop=True) * np.nan
        nobody = xr.full_like(nothing, "", dtype=object)
        return WorstCase(nothing, nobody, xr.zeros_like(nothing, dtype=bool).any(SAMPLE))
    described = [n for n, c in chosen.coords.items() if ATTACK in c.dims]
    names = xr.DataArray(chosen[ATTACK].values.astype(object), dims=ATTACK)
    chosen = chosen.drop_vars(described)
    usable = known(chosen) & chosen["correct"].notnull()
    screening = chosen["screening"].fillna(chosen["correct"]).where(usable, np.inf)
    first = screening.argmin(ATTACK)
    correct = chosen["correct"].where(usable).isel({ATTACK: first})
    lowered = correct < chosen["clean_correct"]
    attack = names.isel({ATTACK: first}).where(lowered, "").transpose(*correct.dims)
    asked = xr.DataArray([not is_diagnostic(str(name)) for name in names.values], dims=ATTACK)
    upper = (~complete(chosen) & ~absent(chosen) & asked).any(ATTACK)
    return WorstCase(correct, attack, upper)


def robust_accuracy(results: xr.Dataset) -> PerSample:
    """Share of samples that the attack leaves right; clean errors count as not robust."""
    values = results["correct"].where(known(results))
    return PerSample("robust_accuracy", "robust accuracy", values, xr.ones_like(values))


def clean_accuracy(results: xr.Dataset) -> PerSample:
    """Share of clean images that are classified right."""
    values = results["clean_correct"]
    return PerSample("clean_accuracy", "clean accuracy", values, xr.ones_like(values))


def conditional_robust_accuracy(results: xr.Dataset) -> PerSample:
    """Share of the clean-correct samples that the attack leaves right.

    For models that answer at random: the probability of a right answer under attack, given a right answer to
    the clean image in another draw.
    """
    values = results["correct"].where(known(results))
    weights = results["clean_correct"] + xr.zeros_like(values)
    return PerSample(
        "conditional_robust_accuracy", "robust accuracy on clean-correct samples", values, weights
    )


def attack_success_rate(results: xr.Dataset) -> PerSample:
    """Share of the clean-correct samples that the attack turns wrong."""
    kept = conditional_robust_accuracy(results)
    return PerSample(
        "attack_success_rate", "attack success rate on clean-correct samples", 1 - kept.values, kept.weights
    )


def attack_success_rate_over_all(results: xr.Dataset) -> PerSample:
    """Share of all samples that are right when clean and wrong under attack."""
    right = robust_accuracy(results)
    broken = results["clean_correct"] * (1 - right.values)
    values = broken.transpose(*right.values.dims)
    return PerSample(
        "attack_success_rate_over_all", "attack success rate on all samples", values, right.weights
    )


def gap(results: xr.Dataset) -> PerSample:
    """Clean accuracy minus robust accuracy."""
    right = robust_accuracy(results)
    values = (results["clean_correct"] - right.values).transpose(*right.values.dims)
    return PerSample("gap", "clean accuracy minus robust accuracy", values, right.weights)


def worst_case_accuracy(results: xr.Dataset) -> PerSample:
    """Share of samples that every attack of the suite leaves right."""
    values = worst_case(results).correct
    return PerSample("worst_case", "worst-case robust accuracy over the suite", values, xr.ones_like(values))


MEASURES: Mapping[str, Callable[[xr.Dataset], PerSample]] = {
    "robust_accuracy": robust_accuracy,
    "clean_accuracy": clean_accuracy,
    "conditional_robust_accuracy": conditional_robust_accuracy,
    "attack_success_rate": attack_success_rate,
    "attack_success_rate_over_all": attack_success_rate_over_all,
    "gap": gap,
    "worst_case": worst_case_accuracy,
}
"""The measures of correctness; `calibration.MEASURES` holds those of confidence."""


def measure_named(name: str) -> Callable[[xr.Dataset], PerSample]:
    """The measure of that name.

    Raises:
        UserError: There is none; the message names the nearest.
    """
    from unmask.results import calibration

    everything = {**MEASURES, **calibration.MEASURES}
    try:
        return everything[name]
    except KeyError:
        close = suggestion(name, everything)
        raise UserError(f"there is no measure '{name}'. {close}", where="measure") from None
