"""Gradient health: what the backward passes of every attack returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from unmask.dimensions import ATTACK, EPSILON, MODEL
from unmask.errors import UserError
from unmask.plotting.frame import COLOURS, axes_or_new, chosen_epsilon

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_trace"]

_SMALLEST = 1e-12

_DOTS = 400
"""Points of a row at most; of more samples evenly spaced quantiles are drawn, the extremes among them."""


def plot_trace(results: xr.Dataset, epsilon: float | None = None, ax: Axes | None = None) -> Axes:
    """Norms of the gradients that each attack saw on each model: a point a sample, medians as bars.

    Of more than 400 samples evenly spaced quantiles are drawn.

    The label of a row also says which share of the gradients was zero and which was not finite. A row with
    all its points at the left edge is a vanishing gradient.

    Args:
        results: A result.
        epsilon: At which radius; the largest when None.
        ax: Where to draw; a new figure when None.

    Raises:
        UserError: No attack of the run took a gradient, or the run lacks the radius.
    """
    epsilon = chosen_epsilon(results, epsilon)
    here = results.sel({EPSILON: epsilon})
    rows = []
    for i, model in enumerate(map(str, here[MODEL].values)):
        for attack in map(str, here[ATTACK].values):
            cell = here.sel({MODEL: model, ATTACK: attack})
            norms = cell["gradient_norm"].values
            taken = ~np.isnan(cell["gradient_zero"].values)
            if taken.any():
                zero = float(cell["gradient_zero"].values[taken].mean())
                wild = float(cell["gradient_nonfinite"].values[taken].mean())
                label = f"{model}, {attack}\n{100 * zero:.1f} % zero, {100 * wild:.1f} % not finite"
                rows.append((label, norms[np.isfinite(norms)], i))
    if not rows:
        raise UserError("no attack of the run took a gradient, so there is none to show.", where="trace")
    ax = axes_or_new(ax, (7.0, 1.2 + 0.45 * len(rows)))
    for y, (_, norms, i) in enumerate(rows):
        colour = COLOURS[i % len(COLOURS)]
        seen = np.maximum(norms, _SMALLEST)
        # Spread by rank, so that the picture is the same every time.
        dots = seen
        if len(seen) > _DOTS:
            dots = np.sort(seen)[np.linspace(0, len(seen) - 1, _DOTS).round().astype(int)]
        spread = (np.arange(len(dots)) * 0.618034 % 1 - 0.5) * 0.5
        ax.plot(dots, y + spread, linestyle="", marker=".", markersize=3, alpha=0.5, color=colour)
        if len(seen):
            ax.plot([np.median(seen)] * 2, [y - 0.35, y + 0.35], color=colour, linewidth=2)
    ax.set_xscale("log")
    ax.set_yticks(range(len(rows)), [label for label, _, _ in rows], fontsize=7)
    ax.invert_yaxis()
    ax.set_xlabel("mean l2 norm of the gradients of a sample (1 / pixel value)")
    ax.set_title("Gradient health, a point a sample (at most 400), median as a bar", fontsize=10)
    ax.grid(alpha=0.25, axis="x")
    return ax
