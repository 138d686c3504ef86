"""Images beside those of the run that attacks name: whether they fit, before the first query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unmask.data import DataReference, LabelledImages
from unmask.errors import UserError
from unmask.evaluation.applicability import parts_of

if TYPE_CHECKING:
    from unmask.configured import ConfiguredAttack

__all__ = ["check_further_data"]


def check_further_data(
    attacks: Mapping[str, ConfiguredAttack], data: LabelledImages, targets: Mapping[str, Mapping[int, int]]
) -> None:
    """Refuse data sets named by attacks that do not go with the run's samples.

    Args:
        attacks: By their names in the results.
        data: The samples of the run.
        targets: For every targeted attack the class to be reached, by sample id.

    Raises:
        UserError: Images have another shape, or lie outside the bounds; or there is none of a target's class.
    """
    low, high = data.bounds
    for name, configured in attacks.items():
        for part in parts_of(configured.attack):
            if not isinstance(part, DataReference):
                continue
            images, where = part.data.images, f"attacks.{name}"
            shape, wanted = tuple(images.shape[1:]), tuple(data.images.shape[1:])
            if shape != wanted:
                raise UserError(
                    f"the data set '{part.data.name}' has images of shape {shape}, and the run's are of "
                    f"shape {wanted}.",
                    where=where,
                )
            if len(images) and not (float(images.min()) >= low and float(images.max()) <= high):
                raise UserError(
                    f"the data set '{part.data.name}' has pixel values from {float(images.min()):.4g} to "
                    f"{float(images.max()):.4g}, outside the run's bounds [{low:g}, {high:g}].",
                    where=where,
                )
            missing = set(targets.get(name, {}).values()) - set(part.data.labels.tolist())
            if missing:
                raise UserError(
                    f"the data set '{part.data.name}' has no image of class {min(missing)}, which is a "
                    "target. Give one that has, or more of its samples.",
                    where=where,
                )
