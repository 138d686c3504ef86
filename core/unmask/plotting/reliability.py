"""Reliability diagrams: how often a model is right, against how sure it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from unmask import statistics
from unmask.dimensions import ATTACK, EPSILON, MODEL
from unmask.plotting.frame import COLOURS, MARKERS, axes_or_new, chosen_epsilon, chosen_name
from unmask.reports.wording import epsilon_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_reliability"]


def plot_reliability(
    results: xr.Dataset,
    model: str | None = None,
    epsilon: float | None = None,
    bins: int = 10,
    level: float = 0.99,
    ax: Axes | None = None,
) -> Axes:
    """Accuracy against confidence in bins, on clean images and on every attack's final examples.

    Args:
        results: A result.
        model: Which; the first when None.
        epsilon: At which radius; the largest when None.
        bins: Bins of equal width.
        level: Confidence level of the Clopper-Pearson bars.
        ax: Where to draw; a new figure when None.

    Raises:
        UserError: An unknown model or radius, or no bins.
    """
    ax = axes_or_new(ax, (5.0, 4.6))
    model, epsilon = chosen_name(results, MODEL, model), chosen_epsilon(results, epsilon)
    final = results.unmask.reliability(bins).sel({MODEL: model, EPSILON: epsilon})
    lines = {"clean": results.unmask.reliability(bins, "clean").sel({MODEL: model})}
    lines |= {str(name): final.sel({ATTACK: name}) for name in final[ATTACK].values}
    ax.plot([0, 1], [0, 1], linestyle=":", linewidth=1, color="#7F7F7F", label="calibrated")
    for i, (name, line) in enumerate(lines.items()):
        there = np.flatnonzero(line["count"].values > 0)
        if not len(there):
            continue
        accuracy, count = line["accuracy"].values[there], line["count"].values[there]
        ends = np.array(
            [statistics.clopper_pearson(a * n, n, level) for a, n in zip(accuracy, count, strict=True)]
        )
        ax.errorbar(
            line["confidence"].values[there],
            accuracy,
            yerr=np.abs(ends.T - accuracy),
            color=COLOURS[i % len(COLOURS)],
            marker=MARKERS[i % len(MARKERS)],
            markersize=4,
            linewidth=1.2,
            elinewidth=0.6,
            capsize=2,
            label=name,
        )
    ax.set_xlabel("confidence")
    ax.set_ylabel("accuracy")
    ax.set_xlim(0, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_title(
        f"Reliability of {model}, {results.attrs.get('norm')} epsilon {epsilon_text(epsilon)}, {bins} equal "
        f"bins, {100 * level:g} % intervals",
        fontsize=9,
    )
    ax.grid(alpha=0.25)
    ax.legend(fontsize=8)
    return ax
