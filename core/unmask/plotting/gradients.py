"""What backward passes returned: step by step where that was traced, and of every attack on the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE, STEP, TRACED
from unmask.errors import UserError
from unmask.plotting.frame import COLOURS, MARKERS, axes_or_new, chosen_epsilon

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_gradient_health", "plot_trace"]

_SMALLEST = 1e-12

_DOTS = 400
"""Points of a row at most; of more samples evenly spaced quantiles are drawn, the extremes among them."""


_PANELS = (
    (("trace_small",), "entries below 0.01, share", False),
    (("trace_nan", "trace_infinite"), "entries NaN (infinite dashed), share", False),
    (("trace_mean", "trace_quantile_99"), "magnitude, mean (99 % quantile dashed)", True),
    (("trace_median",), "magnitude, median", True),
    (("trace_skew",), "skewness of the magnitudes", False),
)
"""Of a traced result: the variables of a panel, its axis, and whether that is logarithmic."""


def plot_trace(results: xr.Dataset, epsilon: float | None = None, ax: Axes | None = None) -> Axes:
    """The input gradient along the path of each attack; gradient health on the whole where it was not traced.

    Where the run had ``trace = true``: one panel for each quantity (small, NaN and infinite entries, their
    mean and median magnitude, 99 % quantile and skewness), steps from left to right, one line for each model
    and attack: means over the samples that were right when clean. Elsewhere as `plot_gradient_health`.

    Args:
        results: A result.
        epsilon: At which radius; the largest when None.
        ax: Where to draw; a traced result then shows its first panel alone. A new figure when None.

    Raises:
        UserError: No attack of the run took a gradient, or the run lacks the radius.
    """
    if "trace_small" not in results:
        return plot_gradient_health(results, epsilon, ax)
    here = results[list(TRACED)].sel({EPSILON: chosen_epsilon(results, epsilon)}).mean(SAMPLE)
    lines = [
        (i, model, j, attack)
        for i, model in enumerate(map(str, here[MODEL].values))
        for j, attack in enumerate(map(str, here[ATTACK].values))
        if bool(here["trace_small"].sel({MODEL: model, ATTACK: attack}).notnull().any())
    ]
    if not lines:
        return plot_gradient_health(results, epsilon, ax)
    places = [ax] if ax is not None else _panels(len(_PANELS))
    for place, (names, label, logarithmic) in zip(places, _PANELS, strict=False):
        for i, model, j, attack in lines:
            for name, style in zip(names, ("-", "--"), strict=False):
                values = here[name].sel({MODEL: model, ATTACK: attack}).dropna(STEP)
                place.plot(
                    values[STEP].values,
                    values.values,
                    linestyle=style,
                    marker=MARKERS[j % len(MARKERS)],
                    markevery=max(1, values.size // 8),
                    markersize=3,
                    color=COLOURS[i % len(COLOURS)],
                    label=f"{model}, {attack}" if style == "-" else None,
                )
        if logarithmic:
            place.set_yscale("log")
        elif "share" in label:
            place.set_ylim(-0.02, 1.02)
        place.set_xlabel("step of the attack", fontsize=8)
        place.set_ylabel(label, fontsize=8)
        place.grid(alpha=0.25)
    places[0].legend(fontsize=6)
    places[0].set_title("Input gradient along the path, means over samples", fontsize=10)
    return places[0]


def _panels(count: int) -> list[Axes]:
    """Axes of a new figure, two in a row."""
    from matplotlib.figure import Figure

    rows = -(-count // 2)
    axes = Figure(figsize=(9.0, 2.6 * rows), layout="constrained").subplots(rows, 2).flatten()
    for spare in axes[count:]:
        spare.set_axis_off()
    return list(axes[:count])


def plot_gradient_health(results: xr.Dataset, epsilon: float | None = None, ax: Axes | None = None) -> Axes:
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
