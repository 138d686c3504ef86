"""A model that a repository offers to torch.hub."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from unmask.errors import MisuseError, UserError, suggestion
from unmask.manifest.location import resolved
from unmask_plugins.models.hub import not_built
from unmask_plugins.models.preprocessing import Normalize, Resize, put_before

__all__ = ["torch_hub_model"]


def torch_hub_model(
    repo: str,
    entry: str,
    source: Literal["github", "local"] = "github",
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    size: int | None = None,
    **options: Any,
) -> nn.Module:
    """What an entry point in a repository's ``hubconf.py`` builds, in eval mode.

    The repository's code is run: name one that you trust.

    Args:
        repo: ``owner/name``, or ``owner/name:branch``; for source ``local`` a folder with a ``hubconf.py``,
            relative to the manifest.
        entry: The name of the entry point.
        source: Where the repository is.
        mean: Subtracted from each channel of the images before they reach the model.
        std: Each channel is divided by it.
        size: Height and width that the network gets to see; images of another size are resized.
        options: Passed on to the entry point.

    Raises:
        UserError: There is no such repository or entry, it cannot be fetched, or building fails.
        MisuseError: The entry builds something else than an `nn.Module`.
    """
    place = repo
    if source == "local":
        folder = resolved(repo)
        if not Path(folder, "hubconf.py").is_file():
            raise UserError(f"there is no {folder}/hubconf.py.", where="repo")
        place = str(folder)
        if entry not in (offered := _offered(folder / "hubconf.py")):
            raise UserError(f"'{repo}' offers no '{entry}'. {suggestion(entry, offered)}", where="entry")
    load: Any = torch.hub.load
    # Naming a repository in a manifest is trusting it; torch would ask on the terminal.
    trusted = {"trust_repo": True, "skip_validation": True} if source == "github" else {}
    try:
        network = load(place, entry, source=source, verbose=False, **trusted, **options)
    except Exception as error:
        raise _not_built(repo, entry, error, fetches=source == "github") from error
    if not isinstance(network, nn.Module):
        raise MisuseError(
            f"'{entry}' of '{repo}' returned {type(network).__name__}, not a torch.nn.Module.", where="entry"
        )
    steps: list[nn.Module] = []
    if size is not None:
        if size < 1:
            raise UserError(f"{size} must be at least 1.", where="size")
        steps.append(Resize(size, size))
    given = [value for value in (mean, std) if value is not None]
    if given:
        steps.append(Normalize(mean, std, max(map(len, given))))
    return (put_before(network, *steps) if steps else network).eval()


def _offered(file: Path) -> list[str]:
    """The names that a file defines or imports, read without running it."""
    found = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign):
            found += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in found if not name.startswith("_")]


def _not_built(repo: str, entry: str, error: Exception, *, fetches: bool) -> UserError:
    what = f"'{entry}' of '{repo}'"
    if not fetches or not isinstance(error, OSError | ValueError):
        return not_built(what, error, fetches=False)
    return UserError(
        f"{what} could not be fetched ({type(error).__name__}: {error}). Connect to the network, or name a "
        'folder of your own with source = "local".',
        where="repo",
    )
