"""Intervals, bounds and paired tests; every number that a report prints with its uncertainty comes from here.

Successes and counts may be fractional, because models that answer at random are scored by expected
correctness. A per-sample score in [0, 1] varies at most as much as a success that is 0 or 1 with the same
mean, so the binomial intervals are then wider than they need be, never narrower.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from unmask.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

__all__ = [
    "Interval",
    "McNemar",
    "bootstrap_interval",
    "certified_radius",
    "clopper_pearson",
    "holm",
    "mcnemar_exact",
    "sign_flip_test",
    "t_interval",
    "t_interval_of_mean",
    "wilson",
]


class Interval(NamedTuple):
    """Both ends of a confidence interval; NaN where the data do not determine one."""

    lower: float
    upper: float


class McNemar(NamedTuple):
    """Outcome of a paired test: how often only the one or only the other was right, and the p-value."""

    only_first: int
    only_second: int
    p_value: float


def clopper_pearson(successes: float, n: float, level: float = 0.99) -> Interval:
    """Exact binomial interval (Clopper and Pearson 1934) through beta quantiles, both tails (1 - level) / 2.

    Args:
        successes: Number of successes, 0 to `n`; may be fractional.
        n: Number of trials; with none the interval is [0, 1].
        level: Confidence level, between 0 and 1.

    Raises:
        UserError: A count outside its range, or a level outside (0, 1).
    """
    successes = _checked(successes, n, level)
    if n == 0:
        return Interval(0.0, 1.0)
    from scipy.stats import beta

    tail = (1 - level) / 2
    lower = 0.0 if successes == 0 else float(beta.ppf(tail, successes, n - successes + 1))
    upper = 1.0 if successes == n else float(beta.isf(tail, successes + 1, n - successes))
    return Interval(lower, upper)


def wilson(successes: float, n: float, level: float = 0.99) -> Interval:
    """Score interval (Wilson 1927); arguments and errors as for `clopper_pearson`."""
    successes = _checked(successes, n, level)
    if n == 0:
        return Interval(0.0, 1.0)
    from scipy.stats import norm

    z = float(norm.isf((1 - level) / 2))
    rate, scale = successes / n, 1 + z * z / n
    centre = (rate + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    # At the ends the formula is exact, its rounding is not.
    lower = 0.0 if successes == 0 else max(0.0, centre - half)
    upper = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(lower, upper)


def t_interval(successes: float, n: int, level: float = 0.99) -> Interval:
    """Student's interval round a rate of successes, as published tables use it; see `t_interval_of_mean`.

    Args:
        successes: Number of successes.
        n: Number of samples.
        level: Confidence level.

    Returns:
        NaN at both ends for fewer than two samples.

    Raises:
        UserError: A level outside (0, 1), or not 0 <= successes <= n.
    """
    from scipy.stats import t

    successes = _checked(successes, n, level)
    if n < 2:
        return Interval(math.nan, math.nan)
    rate = successes / n
    half = float(t.isf((1 - level) / 2, n - 1)) * math.sqrt(rate * (1 - rate) / (n - 1))
    return Interval(rate - half, rate + half)


def t_interval_of_mean(values: ArrayLike, level: float = 0.99, weights: ArrayLike | None = None) -> Interval:
    """Student's interval round the mean, as published tables use it; it may leave [0, 1].

    It is empty of meaning at rates of exactly 0 or 1, where it has no width; use `clopper_pearson` there.

    Args:
        values: One value per sample.
        level: Confidence level.
        weights: Weight of each sample; those with weight 0 are left out. Equal when None.

    Returns:
        NaN at both ends for fewer than two values.

    Raises:
        UserError: A level outside (0, 1).
    """
    import numpy as np
    from scipy.stats import t

    _check_level(level)
    x, w = _weighted(values, weights)
    n = len(x)
    if n < 2 or not np.isfinite(x).all():
        return Interval(math.nan, math.nan)
    mean = float((w * x).sum() / w.sum())
    variance = float((w**2 * (x - mean) ** 2).sum() / w.sum() ** 2) * n / (n - 1)
    half = float(t.isf((1 - level) / 2, n - 1)) * math.sqrt(variance)
    return Interval(mean - half, mean + half)


def bootstrap_interval(
    values: ArrayLike,
    level: float = 0.99,
    seed: int = 0,
    weights: ArrayLike | None = None,
    resamples: int = 10_000,
) -> Interval:
    """Percentile bootstrap of the (weighted) mean over samples (Efron 1979).

    Without width where all values are equal; use `clopper_pearson` at 0 % and 100 %.

    Args:
        values: One value per sample.
        level: Confidence level.
        seed: Of its own random stream; equal seeds give equal intervals.
        weights: As for `t_interval_of_mean`.
        resamples: How many.

    Returns:
        NaN at both ends without values.

    Raises:
        UserError: A level outside (0, 1).
    """
    import numpy as np

    _check_level(level)
    x, w = _weighted(values, weights)
    n = len(x)
    if n == 0 or not np.isfinite(x).all():
        return Interval(math.nan, math.nan)
    random = np.random.default_rng(seed)
    means = np.empty(resamples)
    block = max(1, 2_000_000 // n)
    for start in range(0, resamples, block):
        rows = random.integers(0, n, (min(block, resamples - start), n))
        means[start : start + len(rows)] = (w * x)[rows].sum(1) / w[rows].sum(1)
    lower, upper = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(lower), float(upper))


def certified_radius(successes: float, n: float, alpha: float, sigma: float) -> float:
    """Radius in l2 that randomized smoothing certifies (Cohen, Rosenfeld and Kolter 2019, section 3.2.2).

    The one-sided Clopper-Pearson bound p on the probability of the top class, at confidence 1 - alpha, gives
    sigma times the standard normal quantile of p.

    Args:
        successes: Votes for the top class.
        n: All votes.
        alpha: Probability that the certificate is wrong.
        sigma: Standard deviation of the noise, in units of a pixel value.

    Returns:
        The radius; NaN where the bound is at most 1/2, which means abstention. (NaN, not 0: an abstained
        sample is certified at no radius, not even at 0.)

    Raises:
        UserError: A count outside its range, `alpha` outside (0, 1) or `sigma` not positive.
    """
    from scipy.stats import beta, norm

    successes = _checked(successes, n, 1 - alpha)
    if not (math.isfinite(sigma) and sigma > 0):
        raise UserError(f"the noise must be positive, not {sigma}.", where="sigma")
    lower = 0.0 if successes == 0 else float(beta.ppf(alpha, successes, n - successes + 1))
    return float(sigma * norm.ppf(lower)) if lower > 0.5 else math.nan


def mcnemar_exact(
    first: ArrayLike, second: ArrayLike, alternative: Literal["two-sided", "greater"] = "two-sided"
) -> McNemar:
    """Exact McNemar test (1947): is the first right as often as the second, on the same samples?

    Args:
        first: Right or wrong, per sample.
        second: Likewise, for the same samples.
        alternative: ``greater``: the first is right more often; ``two-sided``: they differ.

    Raises:
        UserError: Different numbers of samples, or an unknown alternative.
    """
    import numpy as np
    from scipy.stats import binom

    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if a.shape != b.shape:
        raise UserError(f"a paired test needs the same samples twice, not {a.shape} and {b.shape}.")
    only_first, only_second = int((a & ~b).sum()), int((b & ~a).sum())
    n = only_first + only_second
    if alternative == "greater":
        p = float(binom.sf(only_first - 1, n, 0.5))
    elif alternative == "two-sided":
        p = min(1.0, 2 * float(binom.cdf(min(only_first, only_second), n, 0.5)))
    else:
        raise UserError(f"'{alternative}' is unknown. Known: two-sided, greater.", where="alternative")
    return McNemar(only_first, only_second, p)


def sign_flip_test(differences: ArrayLike, seed: int = 0, flips: int = 9_999) -> float:
    """One-sided paired test: is the mean of the differences above zero? (Fisher's randomisation test.)

    Under the null hypothesis each difference is as likely as its negative. Where all are -1, 0 or 1 this is
    the exact McNemar test and is computed so; otherwise signs are drawn, and the p-value counts the data
    themselves as one draw, so that it is valid for any number of `flips`.

    Args:
        differences: Paired differences, one per sample.
        seed: Of its own random stream.
        flips: Random sign vectors.
    """
    import numpy as np

    d = np.asarray(differences, dtype=np.float64)
    d = d[d != 0]
    if len(d) == 0:
        return 1.0
    if (np.abs(d) == 1).all():
        return mcnemar_exact(d > 0, d < 0, "greater").p_value
    random = np.random.default_rng(seed)
    observed = d.sum() - 1e-12 * np.abs(d).sum()
    reached, done = 0, 0
    block = max(1, 2_000_000 // len(d))
    while done < flips:
        count = min(block, flips - done)
        signs = random.integers(0, 2, (count, len(d)), dtype=np.int8) * 2.0 - 1.0
        reached += int((signs @ d >= observed).sum())
        done += count
    return (reached + 1) / (flips + 1)


def holm(p_values: ArrayLike) -> list[float]:
    """P-values adjusted for having made all these tests (Holm 1979), in the order given."""
    import numpy as np

    p = np.asarray(p_values, dtype=np.float64)
    adjusted, largest = np.empty(len(p)), 0.0
    for rank, i in enumerate(np.argsort(p, kind="stable")):
        largest = max(largest, min(1.0, (len(p) - rank) * float(p[i])))
        adjusted[i] = largest
    return [float(value) for value in adjusted]


def _checked(successes: float, n: float, level: float) -> float:
    """The number of successes, with the rounding of a sum of fractions taken away."""
    _check_level(level)
    if not (math.isfinite(n) and n >= 0):
        raise UserError(f"a number of trials is finite and not negative, not {n}.", where="n")
    slack = 1e-9 * max(1.0, n)
    if not -slack <= successes <= n + slack:
        raise UserError(f"must lie between 0 and {n}, not {successes}.", where="successes")
    if successes <= slack:
        return 0.0
    return n if successes >= n - slack else successes


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise UserError(f"must lie between 0 and 1 (such as 0.99), not {level}.", where="level")


def _weighted(values: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    import numpy as np

    x = np.asarray(values, dtype=np.float64)
    w = np.ones_like(x) if weights is None else np.asarray(weights, dtype=np.float64)
    return x[w > 0], w[w > 0]
