"""Norm balls: projections whose stored result is inside, steepest directions, norms.

A projection computed in floating point lands outside the ball about every second time, by a rounding error;
an exact judge then refuses the example. Here what is *stored* is inside: `project` works in float64, rounds
every coordinate towards the centre, and for l2 and l1 aims at a radius smaller by a relative 2e-11, more than
what summing 150,000 squares in float64, in any order, can err by.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from unmask_kernels.compiling import by_rows, kernel

__all__ = ["NORMS", "norms", "project", "steepest"]

NORMS = ("linf", "l2", "l1", "l0")

_SLACK = 1e-11
"""A point counts as inside up to 1 - _SLACK of the radius and is moved to 1 - 2 * _SLACK: a second projection
then changes nothing."""


def _rounded_inwards(centres: Tensor, wide: Tensor, offsets: Tensor) -> Tensor:
    """``centres + offsets`` in the centres' dtype, nowhere farther from the centre than the offset.

    Rounding to nearest errs by half a unit in the last place, so one unit back is enough.
    """
    nearest = (wide + offsets).to(centres.dtype)
    beyond = (nearest.double() - wide).abs() > offsets.abs()
    return torch.where(beyond, torch.nextafter(nearest, centres), nearest)


def _boxed(points: Tensor, limits: Tensor) -> Tensor:
    """Points cut to [limits[2], limits[3]]; NaN stays."""
    box = limits.to(points.dtype)
    return torch.minimum(torch.maximum(points, box[2]), box[3])


@kernel
def _project_box(points: Tensor, limits: Tensor) -> Tensor:
    return _boxed(points, limits)


@kernel
def _project_linf(points: Tensor, centres: Tensor, limits: Tensor) -> Tensor:
    epsilon = limits[0]
    wide = centres.double()
    differences = points.double() - wide
    nearest = (wide + torch.clamp(differences, -epsilon, epsilon)).to(centres.dtype)
    beyond = (nearest.double() - wide).abs() > epsilon
    edges = torch.where(beyond, torch.nextafter(nearest, centres), nearest)
    # Points inside come back as they are: centre plus difference need not be the point again.
    return _boxed(torch.where(differences.abs() > epsilon, edges, points), limits)


@kernel
def _project_l2(points: Tensor, centres: Tensor, limits: Tensor) -> Tensor:
    wide = centres.double().flatten(1)
    differences = (points.double().flatten(1) - wide).clamp(-1e300, 1e300)
    largest = differences.abs().amax(1, keepdim=True)
    # Scaled by the largest coordinate, so that squares neither overflow nor vanish.
    directions = differences / torch.where(largest > 0.0, largest, 1.0)
    lengths = directions.square().sum(1, keepdim=True).sqrt()
    outside = largest * lengths > limits[0]
    offsets = directions * (limits[1] / lengths.clamp_min(1.0))
    moved = _rounded_inwards(centres.flatten(1), wide, offsets)
    return _boxed(torch.where(outside, moved, points.flatten(1)).reshape(points.shape), limits)


@kernel
def _project_l1(points: Tensor, centres: Tensor, limits: Tensor) -> Tensor:
    wide = centres.double().flatten(1)
    differences = (points.double().flatten(1) - wide).clamp(-1e300, 1e300)
    sizes = differences.abs()
    radius = limits[1]
    # The threshold lies at or above the largest size less the radius. Counting sizes from there changes
    # nothing, and far points lose no digits.
    counted = (sizes - sizes.amax(1, keepdim=True) + radius).clamp_min(0.0)
    ordered = torch.sort(counted, dim=1, descending=True)[0]
    excess = ordered.cumsum(1) - radius
    ranks = torch.arange(1, sizes.shape[1] + 1, dtype=torch.float64, device=sizes.device)
    support = (ordered * ranks > excess).sum(1, keepdim=True).clamp_min(1)
    shrunk = (counted - excess.gather(1, support - 1) / support).clamp_min(0.0)
    # The threshold carries the rounding errors of a long sum; the radius must not.
    shrunk = shrunk * (radius / shrunk.sum(1, keepdim=True).clamp_min(1e-300)).clamp_max(1.0)
    shrunk = torch.minimum(shrunk, sizes)
    moved = _rounded_inwards(centres.flatten(1), wide, torch.where(differences < 0.0, -shrunk, shrunk))
    outside = sizes.sum(1, keepdim=True) > limits[0]
    return _boxed(torch.where(outside, moved, points.flatten(1)).reshape(points.shape), limits)


@kernel
def _project_l0(points: Tensor, centres: Tensor, limits: Tensor) -> Tensor:
    boxed = _boxed(points, limits).flatten(1)
    here = centres.flatten(1)
    wide = here.double()
    asked = (points.double().flatten(1) - wide).clamp(-1e150, 1e150)
    moved = boxed.double() - wide
    # By how much the squared distance falls where a coordinate may go as far as the box allows; NaN is far.
    worth = torch.nan_to_num(moved * (2.0 * asked - moved), nan=float("inf"))
    order = torch.sort(worth, stable=True, dim=1, descending=True)[1]
    ranks = torch.sort(order, stable=True, dim=1)[1] + 1
    kept = (ranks <= limits[0]) | torch.isnan(points.flatten(1))
    return torch.where(kept, boxed, here).reshape(points.shape)


@kernel
def _steepest_linf(gradients: Tensor) -> Tensor:
    # Not torch.sign, which compilers treat differently at NaN.
    return (gradients > 0.0).to(gradients.dtype) - (gradients < 0.0).to(gradients.dtype)


@kernel
def _steepest_l2(gradients: Tensor) -> Tensor:
    wide = torch.nan_to_num(gradients.double().flatten(1), nan=0.0)
    largest = wide.abs().amax(1, keepdim=True)
    scaled = wide / torch.where(largest > 0.0, largest, 1.0)
    lengths = scaled.square().sum(1, keepdim=True).sqrt().clamp_min(1.0)
    return (scaled / lengths).to(gradients.dtype).reshape(gradients.shape)


@kernel
def _steepest_l1(gradients: Tensor) -> Tensor:
    flat = torch.nan_to_num(gradients.flatten(1), nan=0.0)
    chosen = flat.abs().argmax(1, keepdim=True)
    here = torch.arange(flat.shape[1], device=flat.device) == chosen
    signs = (flat > 0.0).to(flat.dtype) - (flat < 0.0).to(flat.dtype)
    return (signs * here.to(flat.dtype)).reshape(gradients.shape)


@kernel
def _norms_linf(differences: Tensor) -> Tensor:
    return differences.double().flatten(1).abs().amax(1)


@kernel
def _norms_l2(differences: Tensor) -> Tensor:
    wide = differences.double().flatten(1)
    largest = wide.abs().amax(1)
    scale = torch.where((largest > 0.0) & (largest < float("inf")), largest, 1.0)
    return scale * (wide / scale.unsqueeze(1)).square().sum(1).sqrt()


@kernel
def _norms_l1(differences: Tensor) -> Tensor:
    return differences.double().flatten(1).abs().sum(1)


@kernel
def _norms_l0(differences: Tensor) -> Tensor:
    flat = differences.double().flatten(1)
    return torch.where(torch.isnan(flat), flat, (flat != 0.0).double()).sum(1)


@functools.lru_cache(maxsize=64)
def _inside(low: float, high: float, dtype: torch.dtype) -> tuple[float, float]:
    """The smallest and largest numbers of `dtype` in [low, high]."""
    ends = torch.tensor([low, high], dtype=torch.float64)
    nearest = ends.to(dtype)
    inwards = torch.nextafter(nearest, nearest.flip(0))
    outside = torch.stack([nearest[0].double() < ends[0], nearest[1].double() > ends[1]])
    first, last = torch.where(outside, inwards, nearest).tolist()
    return first, last


@functools.lru_cache(maxsize=256)
def _limits(
    threshold: float, radius: float, low: float, high: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    # A tensor rather than numbers: compilers may narrow numbers to float32, or compile for each anew.
    with torch.inference_mode(False):
        return torch.tensor(
            [threshold, radius, *_inside(low, high, dtype)], dtype=torch.float64, device=device
        )


_PROJECTIONS = {"linf": _project_linf, "l2": _project_l2, "l1": _project_l1, "l0": _project_l0}
# In l0 a step of unit size is one coordinate too.
_STEEPEST = {"linf": _steepest_linf, "l2": _steepest_l2, "l1": _steepest_l1, "l0": _steepest_l1}
_NORMS = {"linf": _norms_linf, "l2": _norms_l2, "l1": _norms_l1, "l0": _norms_l0}


def _known(norm: str) -> None:
    if norm not in NORMS:
        raise ValueError(f"the norm is {norm!r}; known norms: {', '.join(NORMS)}.")


def project(points: Tensor, centres: Tensor, norm: str, epsilon: float, low: float, high: float) -> Tensor:
    """Brings points into the ball round their centres and into the box.

    The result `x'` satisfies ``|x' - x| <= epsilon`` and ``low <= x' <= high`` when evaluated in float64 on
    the stored numbers, without tolerance. Points inside come back bit for bit (l2, l1: inside all but the
    outermost 1e-11 of the radius), so that projecting twice is projecting once. Not differentiable.

    linf: the nearest representable point of ball and box. l2: radial scaling, then the box. l1: Euclidean
    projection onto the ball (Duchi et al. 2008, figure 1), then the box. Since the box contains the centre,
    cutting to it only shortens every coordinate's way. l0: the nearest point of ball and box; at most epsilon
    coordinates differ from the centre's, the others are the centre's. NaN stays NaN; an infinite coordinate
    counts as a very large one.

    Args:
        points: [n, ...], float32 or float64.
        centres: The same shape and dtype, inside the box.
        norm: ``linf``, ``l2``, ``l1`` or ``l0``.
        epsilon: Radius, 0 to infinity; infinity leaves the box alone.
        low: Lower end of the box.
        high: Upper end of the box.

    Raises:
        ValueError: Unknown norm, epsilon negative or NaN, ``low > high``, shapes that differ.
        TypeError: Dtypes that differ or are neither float32 nor float64.
    """
    _known(norm)
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0, and is {epsilon}.")
    if not low <= high:
        raise ValueError(f"the box [{low}, {high}] is empty.")
    if points.shape != centres.shape:
        raise ValueError(f"points {list(points.shape)} and centres {list(centres.shape)} differ in shape.")
    if points.dtype != centres.dtype or points.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"points ({points.dtype}) and centres ({centres.dtype}) must both be float32 or both float64."
        )
    points, centres = points.detach(), centres.detach()
    sums = norm in ("l2", "l1")
    threshold = epsilon * (1.0 - _SLACK) if sums else epsilon
    radius = epsilon * (1.0 - 2.0 * _SLACK) if sums else epsilon
    limits = _limits(threshold, radius, low, high, points.dtype, points.device)
    if math.isinf(epsilon):
        return _project_box(points, limits)
    projection = _PROJECTIONS[norm]
    return by_rows(lambda some, theirs: projection(some, theirs, limits), points, centres)


def steepest(gradients: Tensor, norm: str) -> Tensor:
    """The direction of unit norm in which a linear function with this gradient climbs fastest, per sample.

    linf: the sign. l2: the normalised gradient, however small or large it is. l1, l0: the coordinate of
    largest magnitude, the first of several, with its sign. Zero where the gradient is zero. A NaN entry
    counts as zero and an infinite one as the largest. Same shape and dtype as `gradients` [n, ...].

    Raises:
        ValueError: Unknown norm.
    """
    _known(norm)
    return by_rows(_STEEPEST[norm], gradients)


def norms(differences: Tensor, norm: str) -> Tensor:
    """Size of every sample's difference [n, ...], float64 [n]; NaN where an entry is NaN.

    l0: the number of coordinates that are not zero.

    Raises:
        ValueError: Unknown norm.
    """
    _known(norm)
    return by_rows(_NORMS[norm], differences)
