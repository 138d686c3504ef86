"""Sorts the attacks of a run by what they know of the model, as far as the verdict is concerned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import attrs
import xarray as xr

from unmask.dimensions import ATTACK

__all__ = ["AttackRow", "Family", "attack_rows"]

Family = Literal["white-box", "black-box", "zero-order", "bypass", "transfer", "other"]

_TRUE_GRADIENTS = {"", "autograd", "eot"}


@attrs.frozen
class AttackRow:
    """One attack of the run.

    Attributes:
        name: Its name in the run.
        use: Its registered name.
        family: ``white-box`` follows the model's own gradient (averaged over draws or not), ``zero-order``
            estimates it from scores, ``bypass`` replaces a part of it, ``black-box`` searches by scores or
            labels, ``transfer`` brings examples from another model. ``other`` mixes these or is unknown, and
            takes no part.
        steps: Gradient steps of all restarts together; None when its settings do not say.
    """

    name: str
    use: str
    family: Family
    steps: int | None


def attack_rows(results: xr.Dataset) -> list[AttackRow]:
    """The attacks of a result, in its order.

    A suite stands beside its stages (``<name>/<stage>``), each of which holds what all up to it have found.
    So the suite itself is a mixture, and so is a stage after one of another family.
    """
    rows: list[AttackRow] = []
    names = [str(n) for n in results[ATTACK].values]
    for i, name in enumerate(names):
        here = results.isel({ATTACK: i})
        settings = _settings(here)
        family = _family(str(here["access"].item()), str(here["gradient"].item()), settings)
        suite = name.rpartition("/")[0]
        earlier = {row.family for row in rows if suite and row.name.rpartition("/")[0] == suite}
        if any(other.startswith(f"{name}/") for other in names) or (
            family == "white-box" and earlier - {"white-box"}
        ):
            family = "other"
        rows.append(AttackRow(name, str(here["use"].item()), family, _steps(settings)))
    return rows


def _settings(attack: xr.Dataset) -> Mapping[str, Any]:
    settings = json.loads(str(attack["settings"].item()) or "{}")
    return settings if isinstance(settings, dict) else {}


def _family(access: str, gradient: str, settings: Mapping[str, Any]) -> Family:
    if access == "transfer":
        return "transfer"
    # A name may be qualified by its distribution, as in "unmask:bypass".
    sources = {s.rpartition(":")[2] for s in (gradient, *_named_sources(settings.get("gradient")))}
    if "bypass" in sources:
        return "bypass"
    if "finite-difference" in sources or (access in ("scores", "labels") and gradient):
        return "zero-order"
    if access in ("scores", "labels"):
        return "black-box"
    return "white-box" if sources <= _TRUE_GRADIENTS else "other"


def _named_sources(gradient: Any) -> Iterator[str]:
    """Names of a gradient source and of those it is wrapped round."""
    if isinstance(gradient, str):
        yield gradient
    elif isinstance(gradient, Mapping):
        if isinstance(gradient.get("use"), str):
            yield gradient["use"]
        for value in gradient.values():
            if isinstance(value, Mapping):
                yield from _named_sources(value)


def _steps(settings: Mapping[str, Any]) -> int | None:
    steps, restarts = settings.get("steps"), settings.get("restarts", 1)
    if isinstance(steps, int) and isinstance(restarts, int):
        return steps * restarts
    return None
