"""How many samples are broken by perturbations up to each size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from unmask import statistics
from unmask.dimensions import ATTACK, EPSILON, MODEL
from unmask.plotting.frame import COLOURS, axes_or_new, chosen_name, lettered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_distortion"]


def plot_distortion(
    results: xr.Dataset, model: str | None = None, level: float = 0.99, ax: Axes | None = None
) -> Axes:
    """Cumulative distribution of the minimal distortion, one line for each attack on one model.

    It ends at the share of samples that were broken at all; clean errors are broken at 0.

    Args:
        results: A result.
        model: Which; the first when None.
        level: Confidence level of the pointwise Clopper-Pearson bands.
        ax: Where to draw; a new figure when None.

    Raises:
        UserError: An unknown model.
    """
    ax = axes_or_new(ax)
    model = chosen_name(results, MODEL, model)
    sizes = results.unmask.distortions().sel({MODEL: model})
    finite = sizes.values[np.isfinite(sizes.values)]
    end = max([*finite.tolist(), float(results[EPSILON].max())], default=1.0)
    for i, name in enumerate(map(str, sizes[ATTACK].values)):
        values = np.sort(sizes.sel({ATTACK: name}).values)
        if np.isnan(values).any():
            continue
        n = len(values)
        steps = np.unique(np.concatenate([[0.0], values[np.isfinite(values)], [end]]))
        reached = np.searchsorted(values, steps, side="right")
        ends = np.array([statistics.clopper_pearson(float(k), n, level) for k in reached])
        colour = COLOURS[i % len(COLOURS)]
        ax.fill_between(steps, ends[:, 0], ends[:, 1], step="post", color=colour, alpha=0.15, linewidth=0)
        ax.step(steps, reached / n, where="post", color=colour, label=name)
    words = f"Minimal distortion of {model}, {100 * level:g} % intervals"
    across = f"perturbation, {results.attrs.get('norm')} (pixel value)"
    lettered(ax, words, across, "share of samples broken")
    return ax
