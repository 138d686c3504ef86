"""Putting partial results together, without a gap and without a contradiction."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import xarray as xr

from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE, STEP, Status
from unmask.errors import UserError

__all__ = ["aligned_epsilons", "merge"]

_DIMENSIONS = (MODEL, ATTACK, EPSILON, SAMPLE)
_SAME = ("schema_version", "norm", "bounds", "seed", "precision", "protocol")
_UNCERTAIN = ("seconds", "message")
"""Variables that may differ where two results overlap: they describe the run, not its outcome."""


def aligned_epsilons(parts: Sequence[xr.Dataset]) -> list[xr.Dataset]:
    """The parts with radii that are equal but for the last bits spelled alike (as in the first part)."""
    known: list[float] = []
    aligned = []
    for part in parts:
        radii = []
        for radius in part[EPSILON].values.tolist():
            same = [k for k in known if abs(k - radius) <= 4 * np.spacing(max(abs(k), abs(radius)))]
            radii.append(same[0] if same else radius)
            if not same:
                known.append(radius)
        aligned.append(part.assign_coords({EPSILON: (EPSILON, radii, part[EPSILON].attrs)}))
    return aligned


def _with_all_steps(parts: Sequence[xr.Dataset]) -> Sequence[xr.Dataset]:
    """Traces of attacks with fewer steps made as long as the longest, their further steps unknown."""
    longest = max((part[STEP].values for part in parts if STEP in part.coords), key=len, default=None)
    if longest is None:
        return parts
    return [part.reindex({STEP: longest}) if STEP in part.coords else part for part in parts]


def merge(parts: Sequence[xr.Dataset], names: Sequence[str] | None = None) -> xr.Dataset:
    """One result of several: other models, attacks, radii or samples of the same evaluation.

    Where parts overlap they must agree (wall time and messages aside); every cell of the merged result must
    come from some part. A cell that one part has not run and another has is taken from the other. The result
    is sorted by radius, and otherwise in the order of the parts.

    Args:
        parts: Results.
        names: What to call them in messages.

    Raises:
        UserError: Nothing to merge, another threat model or seed, parts that disagree, or a hole.
    """
    called = list(names) if names is not None else [f"part {i + 1}" for i in range(len(parts))]
    if not parts:
        raise UserError("there is nothing to merge.")
    for name, part in zip(called, parts, strict=True):
        for attribute in _SAME:
            mine, first = part.attrs.get(attribute), parts[0].attrs.get(attribute)
            if mine != first:
                raise UserError(
                    f"{attribute} is {mine} in {name} and {first} in {called[0]}; only parts of one "
                    "evaluation can be merged."
                )
    whole = _with_all_steps(aligned_epsilons(parts))
    axes: dict[str, list[object]] = {
        d: list(dict.fromkeys(value for part in whole for value in part[d].values.tolist()))
        for d in _DIMENSIONS
    }
    axes[EPSILON].sort(key=lambda radius: float(str(radius)))
    covered = np.zeros([len(axes[d]) for d in _DIMENSIONS], dtype=bool)
    places = [[[axes[d].index(v) for v in part[d].values.tolist()] for d in _DIMENSIONS] for part in whole]
    for place in places:
        covered[np.ix_(*place)] = True
    if not covered.all():
        first_hole = tuple(int(i) for i in np.argwhere(~covered)[0])
        words = ", ".join(f"{d} {axes[d][i]}" for d, i in zip(_DIMENSIONS, first_hole, strict=True))
        raise UserError(
            f"{int((~covered).sum())} of {covered.size} outcomes are in no part, such as {words}. Add the "
            "part that holds them."
        )
    variables = {}
    for name in dict.fromkeys(str(n) for part in whole for n in part.variables):
        if name not in _DIMENSIONS:
            variables[name] = _joined(name, whole, called, axes)
    coordinates = {
        **{d: (d, _axis(d, axes[d]), whole[0][d].attrs) for d in _DIMENSIONS},
        **{n: v for n, v in variables.items() if any(n in part.coords for part in whole)},
    }
    data = {n: v for n, v in variables.items() if n not in coordinates}
    return xr.Dataset(data, coordinates, _attributes(whole))


def _axis(dimension: str, values: list[object]) -> np.ndarray:
    return np.array(values, dtype=object if dimension in (MODEL, ATTACK) else None)


def _joined(
    name: str, parts: Sequence[xr.Dataset], called: Sequence[str], axes: dict[str, list[object]]
) -> xr.Variable:
    """One variable of all parts; where none has it, unknown."""
    holders = [(k, part) for k, part in enumerate(parts) if name in part.variables]
    first = holders[0][1].variables[name]
    sizes: dict[str, int] = {str(d): first.sizes[d] for d in first.dims}
    for _, part in holders:
        other = part.variables[name]
        if set(other.dims) != set(first.dims):
            raise UserError(
                f"{name} has the dimensions {other.dims} in one part and {first.dims} in another."
            )
        for d in first.dims:
            if d not in axes and other.sizes[d] != sizes[str(d)]:
                raise UserError(f"{name} differs in its size along {d}; the images are not of one kind.")
    shape = [len(axes[str(d)]) if str(d) in axes else sizes[str(d)] for d in first.dims]
    filled = np.zeros(shape, dtype=bool)
    settled = np.zeros(shape, dtype=bool)
    kind = first.dtype.kind
    if kind in "OUT":
        values = np.full(shape, "", dtype=object)
    elif kind == "f":
        values = np.full(shape, np.nan, dtype=first.dtype)
    else:
        values = np.zeros(shape, dtype=first.dtype)
    for k, part in holders:
        mine = part.variables[name].transpose(*first.dims)
        new = mine.values.astype(values.dtype)
        place = np.ix_(
            *(
                [axes[str(d)].index(v) for v in part[d].values.tolist()] if str(d) in axes else range(n)
                for d, n in zip(first.dims, shape, strict=True)
            )
        )
        run = np.broadcast_to(_run(part, mine, first.dims), new.shape)
        overlap = filled[place] & settled[place] & run
        old = values[place]
        equal = (old == new) | ((old != old) & (new != new))
        if name not in _UNCERTAIN and not equal[overlap].all():
            count = int((~equal & overlap).sum())
            raise UserError(
                f"{called[k]} disagrees with the parts before it about {name}, in {count} of "
                f"{int(overlap.sum())} places that both have. They are not parts of one evaluation."
            )
        take = ~filled[place] | (run & ~settled[place])
        values[place] = np.where(take, new, old)
        settled[place] |= run
        filled[place] = True
    if not filled.all() and kind not in "fOUT":
        missing = [called[k] for k, part in enumerate(parts) if name not in part.variables]
        raise UserError(f"{', '.join(missing)} lacks {name}, which other parts have.")
    return xr.Variable(first.dims, values, first.attrs)


def _run(part: xr.Dataset, variable: xr.Variable, dims: Sequence[object]) -> np.ndarray:
    """Where this part has an outcome, shaped as a variable; everywhere for what belongs to no cell."""
    cell = (MODEL, ATTACK, EPSILON)
    if not all(d in variable.dims for d in cell):
        return np.ones([1] * len(variable.dims), dtype=bool)
    done = ~np.isin(part["status"].transpose(*_DIMENSIONS).values, (Status.FAILED, Status.NOT_RUN))
    if SAMPLE not in variable.dims:
        done = np.asarray(done.all(-1))
    kept = [d for d in _DIMENSIONS if d in variable.dims]
    order = [kept.index(str(d)) for d in dims if str(d) in kept]
    turned = done.transpose(order)
    shape = [variable.sizes[str(d)] if str(d) in kept else 1 for d in dims]
    return turned.reshape(shape)


def _attributes(parts: Sequence[xr.Dataset]) -> dict[str, object]:
    """Those of the first part; warnings of all, and where the others differ, that they do."""
    merged = dict(parts[0].attrs)
    warnings = [w for part in parts for w in json.loads(part.attrs.get("warnings", "[]"))]
    for attribute in ("unmask_version", "versions", "device", "computed", "plugins"):
        if len({str(part.attrs.get(attribute)) for part in parts}) > 1:
            warnings.append(f"merged from parts that differ in {attribute}; that of the first is kept.")
    for attribute in ("manifest", "manifest_folder", "samples_sha256"):
        found = {str(part.attrs.get(attribute, "")) for part in parts}
        if len(found) > 1:
            merged[attribute] = ""
            warnings.append(f"merged from parts with a different {attribute}; it is left out.")
    merged["warnings"] = json.dumps(list(dict.fromkeys(warnings)))
    return merged
