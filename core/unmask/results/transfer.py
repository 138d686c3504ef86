"""Transfer between models: the matrix, and what it says of an ensemble that answers at random.

A[i, j] is the accuracy of the target j on examples that were made on the source i. Whoever attacks a
randomised ensemble by examples made on one member meets, in expectation, the mean of a row weighted by the
probabilities of the members. Attacker and defender then play a matrix game over A.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import xarray as xr

from unmask.dimensions import ATTACK, EPSILON, MODEL
from unmask.errors import UserError, suggestion
from unmask.results import measures

if TYPE_CHECKING:
    from unmask.results.outcome import Floats

__all__ = ["SOURCE", "TARGET", "TransferMeasures", "solve_matrix_game", "transfer_matrix", "transfer_sources"]

SOURCE = "source"
"""Dimension: the model on which examples were made."""

TARGET = "target"
"""Dimension: the model they were shown to."""


def transfer_sources(results: xr.Dataset) -> dict[str, str]:
    """The transfer attacks of a run that name one source model, by the attack's name."""
    found = {}
    for i, name in enumerate(map(str, results[ATTACK].values)):
        settings = json.loads(str(results["settings"].values[i]) or "{}")
        if str(results["access"].values[i]) == "transfer" and isinstance(settings.get("source"), str):
            found[name] = settings["source"]
    return {name: source for name, source in found.items() if source not in ("all", "leave-one-out")}


def transfer_matrix(results: xr.Dataset) -> xr.DataArray:
    """Accuracy of every model on examples made on every source, over (epsilon, source, target).

    Of several transfer attacks from the same source each sample counts with the worst. NaN where a cell was
    not run or failed. Coordinates `numerator` and `denominator`.

    Raises:
        UserError: The run has no transfer attack that names its source.
    """
    attacks: dict[str, list[str]] = {}
    for name, source in transfer_sources(results).items():
        attacks.setdefault(source, []).append(name)
    if not attacks:
        raise UserError(
            "the run has no attack that transfers from a named model. Add one for each source: "
            '[attacks.from-a], use = "transfer", source = "a".',
            where="attacks",
        )
    names = results[ATTACK].values
    rows = []
    for made_by in attacks.values():
        worst = measures.worst_case(results, xr.DataArray(np.isin(names, made_by), dims=ATTACK))
        chosen = results.sel({ATTACK: made_by})
        whole = measures.complete(chosen).all(ATTACK)
        values = worst.correct.where(whole)
        rate = measures.PerSample("transfer_matrix", "", values, xr.ones_like(values)).rate()
        rows.append(rate.reset_coords(["numerator", "denominator"]))
    stacked = xr.concat(rows, xr.DataArray(list(attacks), dims=SOURCE, name=SOURCE), coords="minimal")
    kept = [n for n in stacked.coords if n not in (SOURCE, MODEL, EPSILON)]
    matrix = stacked.drop_vars(kept).rename({MODEL: TARGET}).transpose(EPSILON, SOURCE, TARGET)
    found = matrix["transfer_matrix"].assign_coords(
        numerator=matrix["numerator"], denominator=matrix["denominator"]
    )
    found[SOURCE].attrs["long_name"] = "model the examples were made on"
    found[TARGET].attrs["long_name"] = "model they were shown to"
    found.attrs = {"units": "1", "long_name": "accuracy on transferred examples"}
    return found


def solve_matrix_game(payoff: Floats) -> tuple[Floats, float]:
    """The column player's best probabilities in a zero-sum matrix game, and the value.

        max over p of min over rows i of sum_j payoff[i, j] p_j,    sum p = 1, p >= 0

    by linear programming (von Neumann 1928; Sengupta, Chakraborti & Kambhampati 2019, MTDeep, for randomised
    ensembles against transferred examples). The value is what the column player can be sure of.

    Args:
        payoff: What the column player gets [row, column], finite.

    Returns:
        Probabilities [column], and the value.
    """
    from scipy.optimize import linprog

    rows, columns = payoff.shape
    # Variables p_1 ... p_n and v; v - sum_j payoff[i, j] p_j <= 0 for every row i.
    solution = linprog(
        c=np.r_[np.zeros(columns), -1.0],
        A_ub=np.c_[-payoff, np.ones(rows)],
        b_ub=np.zeros(rows),
        A_eq=np.r_[np.ones(columns), 0.0][None],
        b_eq=[1.0],
        bounds=[(0.0, 1.0)] * columns + [(None, None)],
        method="highs",
    )
    if not solution.success:  # bounded and feasible for every finite matrix
        raise ArithmeticError(f"the matrix game was not solved: {solution.message}")
    probabilities = np.clip(solution.x[:columns], 0.0, 1.0)
    return probabilities / probabilities.sum(), float(solution.x[columns])


class _HasResults(Protocol):
    _results: xr.Dataset


class TransferMeasures:
    """What ``ds.unmask`` says of transfer between the models of a run."""

    def transfer_matrix(self: _HasResults) -> xr.DataArray:
        """Accuracy on examples made on another model, over (epsilon, source, target).

        Of the attacks that transfer from one named model. NaN where a cell was not run or failed.

        Raises:
            UserError: The run has no such attack.
        """
        return transfer_matrix(self._results)

    def expected_ensemble_accuracy(
        self: _HasResults,
        members: Sequence[str] | None = None,
        probabilities: Sequence[float] | None = None,
    ) -> xr.DataArray:
        """Accuracy that a randomised ensemble has under examples made on each source, over (epsilon, source).

        Boytsov et al. 2025, eq. 7: sum over the members j of p_j A[source, j], A being the transfer matrix;
        the mean of a row for equal probabilities. The attacker knows the members and not the draw.

        Args:
            members: Models of the run that the ensemble is made of; those that are sources too when None.
            probabilities: How often each answers; equal when None.

        Raises:
            UserError: No transfer attacks, an unknown member, or probabilities that are not one for each
                member, negative, or do not sum to 1.
        """
        return _expected(_among(transfer_matrix(self._results), members), probabilities)

    def best_transfer_source(
        self: _HasResults,
        members: Sequence[str] | None = None,
        probabilities: Sequence[float] | None = None,
    ) -> xr.DataArray:
        """On which source the attacker of a randomised ensemble does best, over (epsilon).

        Coordinate `accuracy`: what is left there. "" where a cell is missing. Arguments and errors as for
        `expected_ensemble_accuracy`.
        """
        expected = _expected(_among(transfer_matrix(self._results), members), probabilities)
        whole = expected.notnull().all(SOURCE)
        names = xr.DataArray(expected[SOURCE].values.astype(object), dims=SOURCE)
        first = expected.fillna(np.inf).argmin(SOURCE)
        best = names.isel({SOURCE: first}).where(whole, "").assign_coords({EPSILON: expected[EPSILON]})
        left = expected.min(SOURCE).where(whole)
        left.attrs = {"units": "1", "long_name": "expected accuracy under examples of the best source"}
        best.attrs = {"long_name": "the attacker's best source"}
        return best.rename("best_transfer_source").assign_coords(accuracy=left.reset_coords(drop=True))

    def best_ensemble_probabilities(self: _HasResults, members: Sequence[str] | None = None) -> xr.Dataset:
        """How often each member should answer an attacker who knows that: the matrix game's solution.

        `probability` over (epsilon, target) is the defender's best mixture of members, `source_probability`
        over (epsilon, source) the attacker's best mixture of sources, and `value` over (epsilon) the expected
        accuracy when both play theirs: no mixture of members can be sure of more, and with equal
        probabilities there may be less. `uniform` is what equal probabilities are sure of. The matrix is an
        estimate, and the mixture is chosen and valued on the same samples. NaN where a cell is missing.

        Args:
            members: As for `expected_ensemble_accuracy`.

        Raises:
            UserError: No transfer attacks, or an unknown member.
        """
        matrix = _among(transfer_matrix(self._results), members)
        radii, sources, targets = matrix.shape
        probability = np.full((radii, targets), np.nan)
        source_probability = np.full((radii, sources), np.nan)
        value = np.full(radii, np.nan)
        for k, payoff in enumerate(matrix.values):
            if np.isfinite(payoff).all():
                probability[k], value[k] = solve_matrix_game(payoff)
                source_probability[k], _ = solve_matrix_game(-payoff.T)
        uniform = _expected(matrix, None).min(SOURCE, skipna=False)
        described: dict[str, tuple[tuple[str, ...], Any, str]] = {
            "probability": ((EPSILON, TARGET), probability, "how often each member should answer"),
            "source_probability": (
                (EPSILON, SOURCE),
                source_probability,
                "how often the attacker should use each source",
            ),
            "value": ((EPSILON,), value, "expected accuracy when both play their best mixture"),
            "uniform": ((EPSILON,), uniform.values, "accuracy that equal probabilities are sure of"),
        }
        return xr.Dataset(
            {
                name: (dims, values, {"units": "1", "long_name": meaning})
                for name, (dims, values, meaning) in described.items()
            },
            coords={name: matrix[name] for name in (EPSILON, SOURCE, TARGET)},
        )


def _among(matrix: xr.DataArray, members: Sequence[str] | None) -> xr.DataArray:
    """The columns of an ensemble's members.

    Raises:
        UserError: An unknown member, none, or one twice.
    """
    targets = [str(name) for name in matrix[TARGET].values]
    if members is None:
        sources = {str(name) for name in matrix[SOURCE].values}
        chosen = [name for name in targets if name in sources]
        if not chosen:
            raise UserError(
                f"no source of a transfer attack is a model that was attacked. Say which models the ensemble "
                f"is made of: {', '.join(targets)}.",
                where="members",
            )
        return matrix.sel({TARGET: chosen})
    chosen = [str(name) for name in members]
    for name in chosen:
        if name not in targets:
            raise UserError(f"there is no model '{name}'. {suggestion(name, targets)}", where="members")
    if not chosen or len(set(chosen)) < len(chosen):
        raise UserError("must name at least one model, and each once.", where="members")
    return matrix.sel({TARGET: chosen})


def _expected(matrix: xr.DataArray, probabilities: Sequence[float] | None) -> xr.DataArray:
    n = matrix.sizes[TARGET]
    shares = np.full(n, 1 / n) if probabilities is None else np.asarray(probabilities, dtype=np.float64)
    if shares.shape != (n,) or bool((shares < 0).any()) or not abs(shares.sum() - 1) < 1e-6:
        names = ", ".join(map(str, matrix[TARGET].values))
        raise UserError(
            f"{shares.tolist()} must be one probability for each of {names}, none negative, with the sum 1.",
            where="probabilities",
        )
    weights = xr.DataArray(shares, dims=TARGET, coords={TARGET: matrix[TARGET]})
    found = (matrix.reset_coords(drop=True) * weights).sum(TARGET, skipna=False)
    found.attrs = {
        "units": "1",
        "long_name": "expected accuracy of the randomised ensemble under examples of each source",
    }
    return found.rename("expected_ensemble_accuracy")
