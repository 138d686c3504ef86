"""Sorts the attacks of a run by what they know of the model, as far as the verdict is concerned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import attrs
import xarray as xr

from unmask.dimensions import ATTACK, is_diagnostic

__all__ = ["AttackRow", "Family", "attack_row", "attack_rows"]

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
        steps: Gradient steps of all restarts (and targets) together; None when its settings do not say.
        loss: What it climbs: ``ce``, ``margin``, ``dlr``; "" when its settings do not say.
        averaged: Its gradient is averaged over the model's randomness.
        within: It searches inside the ball; otherwise it seeks the nearest example, at any distance.
        diagnostic: The run added it for the verdict.
        aim: The target that it was given, as JSON; "" where any wrong class will do.
    """

    name: str
    use: str
    family: Family
    steps: int | None
    loss: str = ""
    averaged: bool = False
    within: bool = True
    diagnostic: bool = False
    aim: str = ""

    def aims_no_higher_than(self, other: AttackRow) -> bool:
        """Whether whatever the other achieves would also have been a success of this one."""
        return self.aim in ("", other.aim)


def attack_row(
    name: str, use: str, access: str, gradient: str, search: str, settings: Mapping[str, Any]
) -> AttackRow:
    """An attack by what the result says of it, were it the only one."""
    return AttackRow(
        name=name,
        use=use,
        family=_family(access, gradient, settings),
        steps=_steps(settings),
        loss=str(settings.get("loss", "")),
        averaged=_averaged(gradient, settings),
        within=search == "within",
        diagnostic=is_diagnostic(name),
        aim=json.dumps(settings.get("target")) if settings.get("targeted") is True else "",
    )


def attack_rows(results: xr.Dataset) -> list[AttackRow]:
    """The attacks of a result, in its order.

    A suite stands beside its stages (``<name>/<stage>``), each of which holds what all up to it have found.
    So the suite itself is a mixture, and so is a stage after one of another family.
    """
    rows: list[AttackRow] = []
    names = [str(n) for n in results[ATTACK].values]
    for i, name in enumerate(names):
        here = results.isel({ATTACK: i})
        use, access, gradient, search = (
            str(here[said].item()) for said in ("use", "access", "gradient", "search")
        )
        row = attack_row(name, use, access, gradient, search, _settings(here))
        family = row.family
        # What the run added for the verdict is no suite: each of its rows is a search of its own.
        suite = "" if is_diagnostic(name) else name.rpartition("/")[0]
        earlier = {row.family for row in rows if suite and row.name.rpartition("/")[0] == suite}
        if any(other.startswith(f"{name}/") for other in names) or (
            family == "white-box" and earlier - {"white-box"}
        ):
            family = "other"
        rows.append(attrs.evolve(row, family=family))
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
    total = settings.get("steps")
    if not isinstance(total, int):
        return None
    for name in ("restarts", "targets"):
        runs = settings.get(name, 1)
        total *= max(runs, 1) if isinstance(runs, int) else 1
    return total


def _averaged(gradient: str, settings: Mapping[str, Any]) -> bool:
    draws = settings.get("eot", 1)
    sources = {s.rpartition(":")[2] for s in (gradient, *_named_sources(settings.get("gradient")))}
    return "eot" in sources or (isinstance(draws, int) and draws > 1)
