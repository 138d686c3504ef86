"""Accuracies of all models under all attacks, or of all models under examples made on each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from unmask.dimensions import ATTACK, MODEL
from unmask.plotting.frame import axes_or_new, chosen_epsilon
from unmask.reports.tables import rates
from unmask.reports.wording import epsilon_text, interval_text, percent
from unmask.results.transfer import transfer_sources

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_heatmap"]


def plot_heatmap(
    results: xr.Dataset,
    epsilon: float | None = None,
    transfer: bool = False,
    level: float = 0.99,
    ax: Axes | None = None,
) -> Axes:
    """Robust accuracy with its interval in every cell of (model, attack), in per cent.

    Args:
        results: A result.
        epsilon: At which radius; the largest when None.
        transfer: The transfer matrix: only attacks that transfer from a named model, columns named by it.
        level: Confidence level of the intervals.
        ax: Where to draw; a new figure when None.

    Raises:
        UserError: A radius that the run does not have.
    """
    epsilon = chosen_epsilon(results, epsilon)
    models = [str(name) for name in results[MODEL].values]
    sources = transfer_sources(results) if transfer else {}
    attacks = list(sources) if transfer else [str(name) for name in results[ATTACK].values]
    each = rates(results, "robust_accuracy", level)
    ax = axes_or_new(ax, (1.6 + 1.15 * max(2, len(attacks)), 1.6 + 0.6 * len(models)))
    values = np.array([[each[(m, a, epsilon)].value for a in attacks] for m in models])
    values = values.reshape(len(models), len(attacks))
    ax.imshow(values, vmin=0, vmax=1, cmap="cividis", aspect="auto")
    for i, model in enumerate(models):
        for j, attack in enumerate(attacks):
            rate = each[(model, attack, epsilon)]
            if np.isnan(rate.value):
                ax.text(j, i, "-", ha="center", va="center")
                continue
            colour = "#ffffff" if rate.value < 0.5 else "#000001"
            text = f"{percent(rate.value)}\n{interval_text(rate.lower, rate.upper)}"
            ax.text(j, i, text, ha="center", va="center", color=colour, fontsize=8)
    ax.set_xticks(range(len(attacks)), [f"from {sources[a]}" if transfer else a for a in attacks])
    ax.set_yticks(range(len(models)), models)
    ax.tick_params(axis="x", rotation=20)
    what = "Accuracy under transferred examples" if transfer else "Accuracy"
    ax.set_title(
        f"{what} in %, {results.attrs.get('norm')} epsilon {epsilon_text(epsilon)}, "
        f"{100 * level:g} % intervals",
        fontsize=10,
    )
    ax.set_xlabel("source of the examples" if transfer else "attack")
    ax.set_ylabel("model")
    return ax
