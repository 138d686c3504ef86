"""The models of RobustBench, by their names there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from torch import nn

from unmask.cache import cache_folder
from unmask.errors import UserError, nearest
from unmask.manifest.location import resolved
from unmask_plugins.adapters.libraries import ROBUSTBENCH
from unmask_plugins.adapters.stand_ins import file_of_package, standing_in
from unmask_plugins.models.hub import not_built

__all__ = ["imported_robustbench", "robustbench_model"]

Dataset = Literal["cifar10", "cifar100", "imagenet"]


def imported_robustbench(by: str) -> Any:
    """The library, with what it cannot do without.

    Args:
        by: What needs it.

    Raises:
        UserError: It, or a package that it imports, is not installed.
    """
    ROBUSTBENCH.needed(by)
    try:
        # setuptools no longer brings pkg_resources, which RobustBench asks for the path of one of its files.
        with standing_in("pkg_resources", resource_filename=file_of_package):
            import robustbench
    except ModuleNotFoundError as error:
        raise UserError(f"{by}: RobustBench needs {error.name}: pip install {error.name}") from error
    return robustbench


def robustbench_model(
    name: str,
    dataset: Dataset = "cifar10",
    threat: Literal["Linf", "L2", "corruptions"] = "Linf",
    folder: Path | None = None,
) -> nn.Module:
    """A model of RobustBench's zoo, in eval mode: images in [0, 1] to logits.

    Croce et al. 2021, RobustBench, arXiv:2010.09670. Its weights are read from ``DATASET/THREAT/NAME.pt``
    below `folder`; where they are missing, RobustBench fetches them from the authors' storage.

    Args:
        name: As the leaderboard's pages call it, such as ``Carmon2019Unlabeled``.
        dataset: What it was trained on.
        threat: The threat model it was trained for.
        folder: Where the weights lie, relative to the manifest; ``robustbench`` in Unmask's cache folder
            unless given.

    Raises:
        UserError: RobustBench is not installed or has no such model, or the weights cannot be fetched.
    """
    robustbench = imported_robustbench("the model 'robustbench'")
    from robustbench.model_zoo import model_dicts
    from robustbench.model_zoo.enums import BenchmarkDataset, ThreatModel

    threats = model_dicts[BenchmarkDataset(dataset)]
    known = threats.get(ThreatModel(threat), {})
    if name not in known:
        close = nearest(name, known)
        hint = f"Did you mean '{close}'? " if close else ""
        elsewhere = [each.value for each, models in threats.items() if name in models]
        there = f" It is there for threat '{elsewhere[0]}'." if elsewhere else ""
        raise UserError(
            f"{ROBUSTBENCH} has no model '{name}' for {dataset} and {threat}.{there} {hint}"
            f"Known: {', '.join(sorted(known)) or 'none'}.",
            where="name",
        )
    place = cache_folder() / "robustbench" if folder is None else resolved(folder)
    try:
        network: nn.Module = robustbench.load_model(
            name, model_dir=str(place), dataset=dataset, threat_model=threat
        )
    except Exception as error:
        raise not_built(f"RobustBench's '{name}'", error, fetches=True) from error
    return network.eval()
