"""What every figure has in common: somewhere to draw, colours, and the threat model on it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import xarray as xr

from unmask.dimensions import EPSILON, MODEL
from unmask.errors import UserError, suggestion
from unmask.reports.head import attack_settings, threat_model_sentence
from unmask.reports.wording import epsilon_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "MARKERS", "axes_or_new", "chosen_epsilon", "chosen_name", "lettered", "state"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#7F7F7F")
"""Okabe and Ito's palette, told apart by colour-blind readers, the faint yellow left out."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def axes_or_new(ax: Axes | None, size: tuple[float, float] = (6.0, 4.0)) -> Axes:
    """The given axes, or those of a new figure that belongs to no window."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").subplots()


def lettered(ax: Axes, title: str, across: str, up: str) -> None:
    """Title, names of the axes, a grid, a legend where anything has a name; upwards lie shares."""
    ax.set_title(title, fontsize=10)
    ax.set_xlabel(across)
    ax.set_ylabel(up)
    ax.set_ylim(-0.02, 1.02)
    ax.grid(alpha=0.25)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize=8)


def chosen_name(results: xr.Dataset, dimension: str, name: str | None) -> str:
    """A model's or attack's name: the given one, or the first.

    Raises:
        UserError: There is none of that name.
    """
    names = [str(n) for n in results[dimension].values]
    if name is None:
        return names[0]
    if name not in names:
        raise UserError(f"there is no {dimension} '{name}'. {suggestion(name, names)}", where=dimension)
    return name


def chosen_epsilon(results: xr.Dataset, epsilon: float | None) -> float:
    """A radius of the run: the nearest to the given one, or the largest.

    Raises:
        UserError: No radius of the run lies within a billionth of the given one.
    """
    radii = results[EPSILON].values
    if epsilon is None:
        return float(radii.max())
    nearest = float(radii[abs(radii - epsilon).argmin()])
    if abs(nearest - epsilon) > 1e-9:
        known = ", ".join(epsilon_text(radius) for radius in radii)
        raise UserError(f"the run has no radius {epsilon_text(epsilon)}. It has: {known}.", where="epsilon")
    return nearest


def state(figure: Figure, results: xr.Dataset, level: float) -> None:
    """Write the threat model and the attacks' settings under a figure."""
    # Twenty letters of this size stand in an inch.
    width = max(40, int(19.5 * figure.get_figwidth()))
    lines = textwrap.wrap(threat_model_sentence(results, level), width)
    for attack in attack_settings(results):
        lines += textwrap.wrap(f"{attack.name}: {attack.sentence}", width, subsequent_indent="    ")
    models = ", ".join(str(name) for name in results[MODEL].values)
    lines += textwrap.wrap(f"models: {models}", width)
    height = figure.get_figheight()
    added = 0.13 * len(lines) + 0.1
    figure.set_figheight(height + added)
    share = added / (height + added)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(rect=(0, share, 1, 1 - share))  # type: ignore[call-arg]
    figure.text(0.01, 0.005, "\n".join(lines), fontsize=6, va="bottom", ha="left", family="monospace")
