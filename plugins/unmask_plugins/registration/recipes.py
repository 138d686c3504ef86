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
            name="adversarial",
            summary="Cross-entropy on adversarial examples made on the way, by PGD or one FGSM step; with "
            "`diversity`, for ensembles that are to err in different ways.",
            reference="Madry et al. 2018, arXiv:1706.06083; Wong, Rice & Kolter 2020, arXiv:2001.03994; "
            "Sharif, Bauer & Reiter 2019, arXiv:1912.09059; Sitawarin et al. 2024, arXiv:2310.17645; "
            "Bui et al. 2021, arXiv:2009.09612",
            build="unmask_plugins.recipes.adversarial:AdversarialTraining",
        ),
        RecipeEntry(
            name="denoising",
            summary="Trains a front end to remove Gaussian noise, by mean squared error and without a "
            "classifier.",
            reference="Zhang et al. 2017, DnCNN, eq. 1, arXiv:1608.03981",
            build="unmask_plugins.recipes.denoising:Denoising",
        ),
        RecipeEntry(
            name="front-end",
            summary="Trains a front end before a frozen classifier on PGD examples, at a tiny rate, for at "
            "most one epoch: the recipe that masks gradients.",
            reference=f"{CURIOUS_CASE}; inner maximisation: Madry et al. 2018, arXiv:1706.06083",
            build="unmask_plugins.recipes.front_end:FrontEndTraining",
        ),
    ]
