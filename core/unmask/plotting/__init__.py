"""Figures: each is a function that takes a result and returns matplotlib Axes."""

from __future__ import annotations

from unmask.plotting.curve import plot_curve
from unmask.plotting.distortion import plot_distortion
from unmask.plotting.gradients import plot_gradient_health, plot_trace
from unmask.plotting.heatmap import plot_heatmap
from unmask.plotting.reliability import plot_reliability

__all__ = [
    "plot_curve",
    "plot_distortion",
    "plot_gradient_health",
    "plot_heatmap",
    "plot_reliability",
    "plot_trace",
]
