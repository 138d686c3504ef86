"""What holds across radii: an example found at a smaller radius counts at a larger one."""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from unmask.dimensions import Status
from unmask.results.outcome import CellOutcome, CleanOutcome

__all__ = ["cascaded", "read_at", "still_missed"]

_EXAMPLE = (
    "correct",
    "screening",
    "prediction",
    "confidence",
    "margin",
    "distance",
    "label_probability",
    "squared_probability",
    "adversarial",
    "target_reached",
    "target_screening",
)


def cascaded(found: CellOutcome, carried: CellOutcome) -> CellOutcome:
    """`found`, with the example of an earlier cell wherever that one is worse for the model.

    The earlier cell is that of the next smaller radius, or of the stage before in a suite. What was spent and
    what the gradients looked like stay those of `found`.
    """
    better = carried.screening < found.screening
    if carried.target_screening is not None and found.target_screening is not None:
        better = carried.target_screening > found.target_screening
    changes = {}
    for name in _EXAMPLE:
        mine, theirs = getattr(found, name), getattr(carried, name)
        if mine is not None and theirs is not None:
            changes[name] = np.where(better.reshape(-1, *[1] * (mine.ndim - 1)), theirs, mine)
    changes["status"] = np.where(better & (found.status != Status.CLEAN_ERROR), Status.OK, found.status)
    return attrs.evolve(found, **changes)


def still_missed(carried: CellOutcome, targeted: bool) -> NDArray[np.bool_]:
    """Samples of an earlier cell at which an attack has something left to gain, bool [sample]."""
    if not targeted:
        return np.asarray(carried.screening > 0)
    if carried.target_screening is None:
        return np.ones(len(carried), dtype=bool)
    return np.asarray(carried.target_screening != 1)


def read_at(
    nearest: CellOutcome, clean: CleanOutcome, epsilon: float, images: np.ndarray | None
) -> CellOutcome:
    """A nearest search, run once, as seen at one radius: farther examples do not count.

    Args:
        nearest: What the search found without a radius.
        clean: What the model makes of the clean images.
        epsilon: The radius.
        images: The clean images, needed where examples are kept.
    """
    reached = nearest.distance <= epsilon
    changes = {
        name: np.where(reached, getattr(nearest, name), getattr(clean, name))
        for name in ("correct", "screening", "prediction", "confidence", "margin")
    }
    for name in ("label_probability", "squared_probability"):
        far, near = getattr(clean, name), getattr(nearest, name)
        if far is not None and near is not None:
            changes[name] = np.where(reached, near, far)
    if nearest.target_reached is not None and nearest.target_clean is not None:
        changes["target_reached"] = np.where(reached, nearest.target_reached, nearest.target_clean)
    if nearest.adversarial is not None and images is not None:
        changes["adversarial"] = np.where(reached[:, None, None, None], nearest.adversarial, images)
    return attrs.evolve(nearest, **changes)
