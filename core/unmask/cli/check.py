"""``unmask check``: everything about a run but the run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli import console
from unmask.cli.completion import complete_manifest

__all__ = ["check"]


def check(
    manifest: Annotated[
        Path,
        typer.Argument(
            help="A manifest (TOML), or a result file to run again.", autocompletion=complete_manifest
        ),
    ],
) -> None:
    """Validate a manifest and probe its models with a few images; trains, attacks and writes nothing."""
    from rich.markup import escape

    from unmask.evaluation.applicability import check_applicability
    from unmask.evaluation.expectation import check_expectations
    from unmask.evaluation.further_data import check_further_data
    from unmask.evaluation.inputs import check_samples
    from unmask.evaluation.inspection import inspect_model
    from unmask.evaluation.targeting import check_targets, notes_on_targets
    from unmask.manifest.checking import build_attacks, check_manifest
    from unmask.manifest.data_section import build_data
    from unmask.manifest.placing import placed_in
    from unmask.manifest.reading import read_manifest
    from unmask.models.building import build_models
    from unmask.models.device import choose_device

    said = read_manifest(manifest)
    check_manifest(said)
    data = build_data(said)
    built = build_models(said, train=False, leave_untrained=True)
    with placed_in(said.file):
        choose_device(said.device)
        samples = check_samples(data.images, data.labels, data.bounds, data.ids)
        images, labels = samples.images[:PROBES], samples.labels[:PROBES]
        facts = {
            name: inspect_model(model, images, labels, name=name) for name, model in built.models.items()
        }
        if not built.untrained:
            check_expectations(built.expectations, data, seed=said.seed, batch_size=said.batch_size)
        attacks = build_attacks(said)
        left_out = check_applicability(attacks, facts, said.norm)
        targets = check_targets(attacks, samples, facts)
        check_further_data(attacks, samples, targets)
        notes = notes_on_targets(targets, samples)

    out = console()
    radii = ", ".join(f"{radius:.6g}" for radius in said.epsilons)
    out.print(f"[bold]{escape(said.name)}[/bold] is in order.")
    out.print(f"threat model: {said.norm}, epsilon {radii}, seed {said.seed}")
    shape = " x ".join(map(str, samples.images.shape[1:]))
    out.print(f"data: {escape(data.name)}, {len(data)} samples of {shape}")
    for name, known in facts.items():
        remarks = "".join(f"; {note}" for note in known.notes)
        out.print(
            f"model {escape(name)}: {known.classes} classes, {known.randomness}{escape(remarks)}",
            soft_wrap=True,
        )
    out.print(f"attacks: {escape(', '.join(said.attacks))}", soft_wrap=True)
    for note in notes:
        out.print(escape(note), soft_wrap=True)
    for (model, attack), reason in left_out.items():
        out.print(f"not run: {escape(f'{attack} on {model}: {reason}')}", soft_wrap=True)
    if built.untrained:
        out.print(f"will be trained: {escape(', '.join(built.untrained))}", soft_wrap=True)


PROBES = 16
"""How many images the models are shown; the inspection wants some of several classes."""
