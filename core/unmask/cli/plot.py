"""``unmask plot``: figures from any result file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli.completion import complete_figure, complete_result

__all__ = ["plot"]

KINDS = ("curve", "heatmap", "reliability", "trace", "distortion")
SUFFIXES = (".png", ".svg", ".pdf")


def plot(
    results: Annotated[
        Path,
        typer.Argument(
            help="A result file (results.nc), or the run folder it lies in.", autocompletion=complete_result
        ),
    ],
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(KINDS)}.", autocompletion=complete_figure)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture: .png, .svg or .pdf.")],
    model: Annotated[
        str | None, typer.Option(help="Of this model (curve: all models' worst case; otherwise the first).")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="At this radius, such as 8/255 (heatmap, reliability, trace).")
    ] = None,
    transfer: Annotated[
        bool, typer.Option("--transfer", help="The heatmap of examples made on one model, shown to others.")
    ] = False,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.99,
) -> None:
    """Draw a figure of a result, with threat model, attack settings and intervals on it.

    Kinds: curve (accuracy against epsilon), heatmap (models by attacks), reliability (accuracy against
    confidence), trace (the input gradient step by step, where the run had `trace = true`; else the gradients'
    norms, zero and non-finite shares of every cell), distortion
    (cumulative distribution of the perturbations that broke the samples).
    """
    from unmask.errors import UserError, suggestion

    if kind not in KINDS:
        raise UserError(f"there is no figure '{kind}'. {suggestion(kind, KINDS)}", where="kind")
    if not 0 < level < 1:
        raise UserError(f"must lie between 0 and 1 (such as 0.99), not {level}.", where="--level")
    if output.suffix.lower() not in SUFFIXES:
        raise UserError(
            f"ends in '{output.suffix}'; a picture ends in {', '.join(SUFFIXES)}.",
            where="--output",
            file=str(output),
        )
    _refuse_idle(kind, model, epsilon, transfer)

    from matplotlib import rc_context

    from unmask import plotting
    from unmask.cli.files import opened_result, written
    from unmask.manifest.radii import parse_radii
    from unmask.plotting.frame import state

    radius = None if epsilon is None else parse_radii([epsilon])[0]
    with opened_result(results) as dataset, rc_context({"svg.hashsalt": "unmask"}):
        if kind == "curve":
            ax = plotting.plot_curve(dataset, model, level)
        elif kind == "heatmap":
            ax = plotting.plot_heatmap(dataset, radius, transfer, level)
        elif kind == "reliability":
            ax = plotting.plot_reliability(dataset, model, radius, level=level)
        elif kind == "trace":
            ax = plotting.plot_trace(dataset, radius)
        else:
            ax = plotting.plot_distortion(dataset, model, level)
        figure = ax.get_figure(root=True)
        assert figure is not None
        state(figure, dataset, level)
        with written(output, "figure") as place:
            figure.savefig(place, format=output.suffix.lower()[1:], dpi=160)
    typer.echo(f"written: {output}")


def _refuse_idle(kind: str, model: str | None, epsilon: str | None, transfer: bool) -> None:
    """An option that the figure would not look at is a mistake."""
    from unmask.errors import UserError

    for option, given, kinds in (
        ("--model", model is not None, ("curve", "reliability", "distortion")),
        ("--epsilon", epsilon is not None, ("heatmap", "reliability", "trace")),
        ("--transfer", transfer, ("heatmap",)),
    ):
        if given and kind not in kinds:
            raise UserError(f"the figure '{kind}' has no such option; {', '.join(kinds)} do.", where=option)
