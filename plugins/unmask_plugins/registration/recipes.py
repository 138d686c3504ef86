"""The built-in training recipes, offered through the same hook as anybody's."""

from __future__ import annotations

from collections.abc import Iterable

from unmask.entries import RecipeEntry
from unmask.markers import hookimpl
from unmask_plugins.registration.citations import CURIOUS_CASE

__all__ = ["unmask_recipes"]


@hookimpl
def unmask_recipes() -> Iterable[RecipeEntry]:
    """Training recipes."""
    return [
        RecipeEntry(
            name="standard",
            summary="Cross-entropy on clean images, with optional shifts and noise.",
            reference="Kingma and Ba 2015, Adam, arXiv:1412.6980",
            build="unmask_plugins.recipes.standard:Standard",
        ),
        RecipeEntry(
            name="front-end",
            summary="Trains a front end before a frozen classifier on PGD examples, at a tiny rate, for at "
            "most one epoch: the recipe that masks gradients.",
            reference=f"{CURIOUS_CASE}; inner maximisation: Madry et al. 2018, arXiv:1706.06083",
            build="unmask_plugins.recipes.front_end:FrontEndTraining",
        ),
    ]
