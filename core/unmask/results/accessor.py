"""``ds.unmask``: every question a result answers, as labelled arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import xarray as xr

from unmask import statistics
from unmask.dimensions import ATTACK, MODEL, SAMPLE
from unmask.errors import UserError, suggestion
from unmask.results import calibration, certificate, curve, distortion, measures, pairing
from unmask.results.transfer import TransferMeasures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unmask.results.calibration import Examples
    from unmask.results.outcome import Floats
    from unmask.verdict import Verdicts

__all__ = ["UnmaskAccessor"]

Method = Literal["clopper-pearson", "wilson", "t", "bootstrap"]
_METHODS = ("clopper-pearson", "wilson", "t", "bootstrap")


@xr.register_dataset_accessor("unmask")  # type: ignore[no-untyped-call]
class UnmaskAccessor(TransferMeasures):
    """Measures and verdicts of a result.

    Rates are fractions with coordinates `numerator` and `denominator`. A cell in which any sample failed or
    was not run has no rate (NaN).
    """

    def __init__(self, results: xr.Dataset) -> None:
        missing = [v for v in ("clean_correct", "correct", "screening", "status") if v not in results]
        if missing:
            raise UserError(f"this Dataset is not a result of Unmask: it lacks {', '.join(missing)}.")
        self._results = results

    def clean_accuracy(self) -> xr.DataArray:
        """Share of clean images classified right, over (model)."""
        return measures.clean_accuracy(self._results).rate()

    def robust_accuracy(self) -> xr.DataArray:
        """Share of all samples that each attack leaves right, over (model, attack, epsilon)."""
        return measures.robust_accuracy(self._results).rate()

    def attack_success_rate(self, over: Literal["clean-correct", "all"] = "clean-correct") -> xr.DataArray:
        """Share of samples that were right when clean and wrong under attack, over (model, attack, epsilon).

        Args:
            over: What is divided by: the ``clean-correct`` samples, or ``all``.

        Raises:
            UserError: Anything else.
        """
        if over == "clean-correct":
            return measures.attack_success_rate(self._results).rate()
        if over == "all":
            return measures.attack_success_rate_over_all(self._results).rate()
        raise UserError(
            f"'{over}' is unknown. {suggestion(str(over), ('clean-correct', 'all'))}", where="over"
        )

    def conditional_robust_accuracy(self) -> xr.DataArray:
        """Share of the clean-correct samples left right, over (model, attack, epsilon).

        NaN with denominator 0 where no sample was clean-correct.
        """
        return measures.conditional_robust_accuracy(self._results).rate()

    def gap(self) -> xr.DataArray:
        """Clean accuracy minus robust accuracy, over (model, attack, epsilon)."""
        return measures.gap(self._results).rate()

    def worst_case(self) -> xr.DataArray:
        """Robust accuracy of the whole suite, over (model, epsilon): every sample under its worst attack.

        Attacks that were not run are left out. The coordinate `upper_bound` is true where a cell failed or is
        unfinished: the number is then over the other attacks, and the truth may be lower.
        """
        upper = measures.worst_case(self._results).upper_bound
        upper.attrs = {"long_name": "an attack failed or is unfinished; the truth may be lower"}
        return measures.worst_case_accuracy(self._results).rate().assign_coords(upper_bound=upper)

    def worst_attack(self) -> xr.DataArray:
        """Name of the attack that did it, over (model, epsilon, sample).

        "" where no attack lowered the sample below its clean correctness: robust ones and clean errors.
        """
        attack = measures.worst_case(self._results).attack.rename("worst_attack")
        attack.attrs = {"long_name": "worst attack"}
        return attack

    def minimal_distortion(
        self,
        over: Literal["all", "clean-correct"] = "all",
        quantiles: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9),
    ) -> xr.Dataset:
        """How small a perturbation breaks the samples, over (model, attack).

        For a nearest search from the distances it found; for a search within a ball by bisection over the
        radii of the run: the smallest that broke the sample. Clean errors count as 0, unbroken samples as
        +inf (`distortions` has the value of every sample). A model that answers at random is broken where it
        is wrong more often than not.

        Args:
            over: Count ``all`` samples, or the ``clean-correct`` ones alone.
            quantiles: Levels of the variable `quantiles`.

        Returns:
            `median` (of all counted, infinite when fewer than half were broken), `mean` over the successes,
            `count` of the successes, `samples` counted, and `quantiles`; NaN where a cell is not whole.

        Raises:
            UserError: An unknown `over`, or a level outside [0, 1].
        """
        return distortion.distortion_summary(self._results, over, quantiles)

    def distortions(self) -> xr.DataArray:
        """The smallest size known to break each sample, over (model, attack, sample)."""
        return distortion.distortions(self._results)

    def curve(self, kind: Literal["raw", "monotone"] = "raw", suite: bool = False) -> xr.DataArray:
        """Robust accuracy over (model, attack, epsilon), radius 0 (the clean accuracy) put first.

        Args:
            kind: ``monotone``: at every radius the smallest accuracy of all radii up to it.
            suite: The worst case over the attacks, without the dimension `attack`.

        Raises:
            UserError: An unknown kind.
        """
        return curve.curves(self._results, suite=suite, kind=kind)

    def area_under_curve(self, kind: Literal["raw", "monotone"] = "raw", suite: bool = False) -> xr.DataArray:
        """Area under `curve` (trapezoid rule) divided by the largest radius, over (model, attack).

        Raises:
            UserError: An unknown kind, or no radius above zero.
        """
        return curve.area(self._results, suite=suite, kind=kind)

    def calibration_error(self, bins: int = 15, examples: Examples = "final") -> xr.DataArray:
        """Expected calibration error over (model, attack, epsilon), or (model) for clean images.

        Args:
            bins: Bins of equal width on [0, 1], each holding its right end; stated in the attributes.
            examples: The ``final`` examples (under attack) or the ``clean`` images.

        Raises:
            UserError: No bins, or unknown examples.
        """
        return calibration.calibration_error(self._results, bins, examples)

    def reliability(self, bins: int = 15, examples: Examples = "final") -> xr.Dataset:
        """What a reliability diagram shows: `accuracy`, `confidence` and `count` of every bin."""
        return calibration.reliability(self._results, bins, examples)

    def brier_score(self, examples: Examples = "final") -> xr.DataArray:
        """Mean squared distance of the probabilities from the label's unit vector, 0 to 2."""
        return calibration.brier(self._results, examples).rate()

    def negative_log_likelihood(self, examples: Examples = "final") -> xr.DataArray:
        """Mean of minus the natural logarithm of the label's probability."""
        return calibration.log_loss(self._results, examples).rate()

    def mean_confidence(self, examples: Examples = "final") -> xr.DataArray:
        """Mean of the largest softmax probability."""
        return calibration.confidence(self._results, examples).rate()

    def certified_accuracy(self, radii: Sequence[float] | None = None) -> xr.DataArray:
        """Share of samples certified to be right within each l2 radius, over (model, radius).

        Args:
            radii: None: those of the run where its norm is l2, otherwise quarters of the largest certified.

        Raises:
            UserError: The run has no certificates (metric ``certified-radius``), or a radius is negative.
        """
        return certificate.certified_accuracy(self._results, radii)

    def compare(
        self,
        first: str,
        second: str,
        of: Literal["model", "attack"] = "model",
        level: float = 0.99,
    ) -> xr.Dataset:
        """Two models or two attacks on the same samples: the paired difference, its interval and its test.

        Args:
            first: A model's or an attack's name.
            second: Another.
            of: Which of the two they are.
            level: Confidence level of the interval of the difference.

        Returns:
            Over the other dimensions: `difference` of the robust accuracies (first minus second), `lower`,
            `upper`, `only_first`, `only_second`, `p_value` (exact McNemar test; a sign-flip test where
            correctness is a probability), `samples` and `test`.

        Raises:
            UserError: An unknown name or dimension, or a level outside (0, 1).
        """
        if of not in (MODEL, ATTACK):
            raise UserError(f"'{of}' is unknown. {suggestion(str(of), (MODEL, ATTACK))}", where="of")
        names = [str(name) for name in self._results[of].values]
        for where, name in (("first", first), ("second", second)):
            if name not in names:
                raise UserError(f"there is no {of} '{name}'. {suggestion(name, names)}", where=where)
        correct = measures.robust_accuracy(self._results).values
        seed = int(self._results.attrs.get("seed", 0))
        found = pairing.compare_arrays(
            correct.sel({of: first}, drop=True), correct.sel({of: second}, drop=True), level, seed
        )
        return found.assign_attrs(first=first, second=second, of=of)

    def interval(
        self,
        measure: str = "robust_accuracy",
        method: Method = "clopper-pearson",
        level: float = 0.99,
    ) -> xr.Dataset:
        """Confidence interval of a measure, over the same dimensions.

        Args:
            measure: ``robust_accuracy``, ``clean_accuracy``, ``conditional_robust_accuracy``,
                ``attack_success_rate``, ``attack_success_rate_over_all``, ``gap``, ``worst_case``,
                ``mean_confidence``, ``brier_score`` or ``negative_log_likelihood``.
            method: ``clopper-pearson`` (also valid at 0 % and 100 %), ``wilson``, ``t`` (what published
                tables use) or ``bootstrap`` over samples, with the run's seed.
            level: Confidence level.

        Returns:
            Dataset with `lower` and `upper`, and the coordinates `estimate`, `numerator` and `denominator`;
            NaN where a cell is not whole, and [0, 1] where a proportion has nothing to divide by.

        Raises:
            UserError: An unknown measure or method, a level outside (0, 1), or a binomial interval for what
                is no proportion: a gap that is negative for some sample, a Brier score, a log-likelihood.
        """
        if method not in _METHODS:
            raise UserError(f"'{method}' is unknown. {suggestion(str(method), _METHODS)}", where="method")
        each = measures.measure_named(measure)(self._results)
        rate = each.rate()
        if method in ("clopper-pearson", "wilson"):
            if not each.proportion or bool((each.values < 0).any()):
                reason = "is negative for some sample, so it" if each.proportion else "of a sample"
                raise UserError(
                    f"{measure} {reason} is no proportion; use 't' or 'bootstrap'.",
                    where="method",
                )
            count = statistics.clopper_pearson if method == "clopper-pearson" else statistics.wilson

            def from_counts(successes: float, n: float) -> tuple[float, float]:
                return count(successes, n, level) if np.isfinite(n) else (np.nan, np.nan)

            lower, upper = xr.apply_ufunc(
                from_counts, rate["numerator"], rate["denominator"], output_core_dims=[[], []], vectorize=True
            )
        else:
            seed = int(self._results.attrs.get("seed", 0))

            def from_values(values: Floats, weights: Floats) -> tuple[float, float]:
                if method == "t":
                    return statistics.t_interval_of_mean(values, level, weights)
                return statistics.bootstrap_interval(values, level, seed, weights)

            # A sample that is unknown must reach the statistics whatever its weight.
            weights = each.weights.where(each.values.notnull(), 1.0)
            lower, upper = xr.apply_ufunc(
                from_values,
                each.values,
                weights,
                input_core_dims=[[SAMPLE], [SAMPLE]],
                output_core_dims=[[], []],
                vectorize=True,
            )
        ends = {
            name: end.reset_coords(drop=True).assign_attrs(
                units="1", long_name=f"{name} end of the interval, {each.long_name}"
            )
            for name, end in (("lower", lower), ("upper", upper))
        }
        found = xr.Dataset(ends).assign_coords(
            estimate=rate.reset_coords(drop=True),
            numerator=rate["numerator"].reset_coords(drop=True),
            denominator=rate["denominator"].reset_coords(drop=True),
        )
        return found.assign_attrs(measure=measure, method=method, level=level)

    def verdict(self) -> Verdicts:
        """Is the robustness real? One verdict per model, with its reasons."""
        from unmask.verdict import Verdicts, judge

        names = map(str, self._results[MODEL].values)
        return Verdicts({name: judge(self._results.sel({MODEL: name})) for name in names})
