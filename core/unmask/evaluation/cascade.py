"""What holds across radii: an example found at a smaller radius counts at a larger one."""

from __future__ import annotations

import attrs
import numpy as np

from unmask.dimensions import Status
from unmask.results.outcome import CellOutcome, CleanOutcome

__all__ = ["cascaded", "read_at"]

_EXAMPLE = (
    "correct",
    "screening",
    "prediction",
    "confidence",
    "margin",
    "distance",
    "adversarial",
    "target_reached",
)


def cascaded(found: CellOutcome, carried: CellOutcome) -> CellOutcome:
    """`found`, with the example of the next smaller radius wherever that one is worse for the model.

    What was spent and what the gradients looked like stay those of this radius.
    """
    better = carried.screening < found.screening
    changes = {}
    for name in _EXAMPLE:
        mine, theirs = getattr(found, name), getattr(carried, name)
        if mine is not None and theirs is not None:
            changes[name] = np.where(better.reshape(-1, *[1] * (mine.ndim - 1)), theirs, mine)
    changes["status"] = np.where(better & (found.status != Status.CLEAN_ERROR), Status.OK, found.status)
    return attrs.evolve(found, **changes)


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
    if nearest.adversarial is not None and images is not None:
        changes["adversarial"] = np.where(reached[:, None, None, None], nearest.adversarial, images)
    return attrs.evolve(nearest, **changes)
