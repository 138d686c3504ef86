"""Accuracy against the radius."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from unmask import statistics
from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE
from unmask.plotting.frame import COLOURS, MARKERS, axes_or_new, chosen_name, lettered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_curve"]


def plot_curve(
    results: xr.Dataset, model: str | None = None, level: float = 0.99, ax: Axes | None = None
) -> Axes:
    """Robust accuracy over epsilon with its Clopper-Pearson band.

    Args:
        results: A result.
        model: One line for each attack on this model; None: one line for the worst case of every model.
        level: Confidence level of the bands.
        ax: Where to draw; a new figure when None.

    Raises:
        UserError: An unknown model.
    """
    ax = axes_or_new(ax)
    n = results.sizes[SAMPLE]
    if model is None:
        rates = results.unmask.curve(suite=True)
        lines = {str(name): rates.sel({MODEL: name}) for name in rates[MODEL].values}
        title = "Worst-case accuracy over all attacks"
    else:
        model = chosen_name(results, MODEL, model)
        rates = results.unmask.curve().sel({MODEL: model})
        lines = {str(name): rates.sel({ATTACK: name}) for name in rates[ATTACK].values}
        title = f"Accuracy of {model}"
    for i, (name, rate) in enumerate(lines.items()):
        there = rate.where(rate.notnull(), drop=True)
        if not there.size:
            continue
        x, y = there[EPSILON].values, there.values
        ends = np.array([statistics.clopper_pearson(value * n, n, level) for value in y])
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        ax.fill_between(x, ends[:, 0], ends[:, 1], color=colour, alpha=0.15, linewidth=0)
        ax.plot(x, y, color=colour, marker=marker, markersize=4, label=name)
    words = f"{title}, {n} samples, {100 * level:g} % intervals"
    lettered(ax, words, f"epsilon, {results.attrs.get('norm')} (pixel value)", "accuracy")
    return ax
