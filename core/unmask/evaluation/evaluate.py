"""`unmask.evaluate`: models, attacks and radii in, one labelled result out."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
import numpy as np
import torch
from torch import nn

from unmask import interrupt
from unmask.crashes import news, surviving
from unmask.dimensions import CHANNEL, HEIGHT, SAMPLE, WIDTH
from unmask.engines.choice import EngineChoice
from unmask.errors import UnsavedError, UserError
from unmask.evaluation import fingerprint
from unmask.evaluation.applicability import check_applicability, references_of
from unmask.evaluation.arguments import check_attacks, check_models, one_of, whole_number
from unmask.evaluation.batching import rows_at_once
from unmask.evaluation.borderline import note_on_borderline
from unmask.evaluation.circumstances import computed_on, plugins_used, versions
from unmask.evaluation.diagnosing import DIAGNOSED, Diagnosis
from unmask.evaluation.further_data import check_further_data
from unmask.evaluation.inputs import check_bounds, check_samples
from unmask.evaluation.inspection import ModelFacts, inspect_model
from unmask.evaluation.judge import PROTOCOLS, Protocol
from unmask.evaluation.labels import attack_label, model_label
from unmask.evaluation.measuring import configure_metrics, with_metrics
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.plan import Plan
from unmask.evaluation.preparation.preparing import Preparation
from unmask.evaluation.progress import Progress
from unmask.evaluation.quantization import with_quantized
from unmask.evaluation.schedule import run_plan
from unmask.evaluation.shown_progress import shown
from unmask.evaluation.slopes import with_slopes
from unmask.evaluation.subject import CellSettings, Subject
from unmask.evaluation.suite import rows_of
from unmask.evaluation.targeting import check_targets, notes_on_targets
from unmask.evaluation.threat import NORMS
from unmask.evaluation.tracing import with_traces
from unmask.manifest.radii import parse_radii
from unmask.manifest.spec import PRECISIONS, PREPARATIONS, QUANTIZERS
from unmask.models.device import placed_on
from unmask.models.guest import guests
from unmask.plugins.catalog import catalog
from unmask.results.folder import RunFolder
from unmask.results.layout import Provenance, assemble
from unmask.results.outcome import CleanOutcome
from unmask.results.storage import save

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["RunContext", "evaluate"]

DRAWS = 96
"""Draws that stand for an expectation, unless told otherwise; a sample's standard error is at most 0.051."""


@attrs.frozen(kw_only=True)
class RunContext:
    """Where an evaluation comes from, for its result file.

    Attributes:
        title: What it is called.
        manifest: The manifest's text.
        data: Name of the data set.
        descriptions: For every model whatever is worth keeping, JSON-able.
        warnings: Sentences to keep with the result.
        folder: Where relative paths of the manifest start.
    """

    title: str = "evaluation"
    manifest: str = ""
    data: str = "data"
    descriptions: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    warnings: Sequence[str] = ()
    folder: str = ""


def evaluate(
    models: Mapping[str, nn.Module] | nn.Module,
    images: Any,
    labels: Any,
    attacks: Mapping[str, Any] | Sequence[str],
    epsilons: Sequence[float | str],
    norm: str = "linf",
    bounds: tuple[float, float] = (0.0, 1.0),
    seed: int = 0,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    precision: str = "float32",
    out: str | os.PathLike[str] | None = None,
    *,
    prepare: str = "auto",
    sample_ids: Any = None,
    keep_examples: bool = False,
    metrics: Sequence[Any] = (),
    quantize: str | None = None,
    diagnose: bool = False,
    trace: bool = False,
    max_queries: int | None = None,
    timeout: float | None = None,
    draws: int = DRAWS,
    protocol: str = "expected",
    fresh: bool = False,
    engine: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Progress | bool | None = None,
    context: RunContext | None = None,
) -> xr.Dataset:
    """Attack models, judge what was found, and say what happened to every sample.

    Args:
        models: Classifiers by name: images to logits, in eval mode.
        images: Floats [sample, channel, height, width] in `bounds`; torch or NumPy.
        labels: Class indices [sample], any integer type.
        attacks: By name: what `unmask.attack` returns, a registered name, a table with ``use``, or an attack.
        epsilons: Radii; numbers, or text such as ``"8/255"``; in l0 whole numbers.
        norm: ``linf``, ``l2``, ``l1``, or ``l0``: the number of pixel values that differ, each channel's own.
        bounds: Smallest and largest valid pixel value.
        seed: Seed of every random stream.
        batch_size: Samples attacked together; the outcome does not depend on it. Chosen by the run when None.
            Halved where they do not fit into memory.
        device: Where to compute; the models come back to where they were.
        precision: ``float32``: the search and the verdict in the models' own precision. ``fast``: searches in
            bfloat16, every verdict in float32, and near misses searched again in float32.
        out: A run folder; an interrupted evaluation goes on where it stopped.
        prepare: The form in which models are searched: ``eager`` (as they are), ``channels-last``
            (batch normalisation folded, channels innermost in memory), ``torchscript``, ``inductor``; or
            ``auto``: chosen by a short measurement where the run is large enough. Verdicts are always the
            model's own.
        sample_ids: The data set's own index of every sample; 0, 1, ... when None.
        keep_examples: Store the final examples.
        metrics: Measurements beyond the core ones: registered names, tables with ``use``, or what
            `unmask.metric` returns.
        quantize: ``8bit``: also judge every final example rounded, inside the ball, to 256 values a pixel.
        diagnose: Add the cheap attacks that the verdict needs and that are missing, on the first samples;
            their names begin with ``diagnose/``, and what they find counts in the worst case.
        trace: Run every iterative gradient attack once more and keep what the gradients of each step look
            like; costs as much as one more restart.
        max_queries: Forwards per sample and cell; an attack's own limit goes first.
        timeout: Seconds per cell; an attack's own limit goes first.
        draws: Draws that stand for the expected correctness of a model whose randomness cannot be enumerated.
        protocol: How randomised models are scored. ``expected``: by their expected correctness.
            ``single-draw``: by one draw for each sample, as many published tables are.
        fresh: Start the run folder anew; what it held is moved aside.
        engine: ``serial``: in this process; ``dask``: by worker processes (the extra ``dask``). The outcome
            does not depend on it.
        workers: Start this many worker processes on this machine; implies ``dask``.
        scheduler: Use the workers of a running Dask scheduler, by its address; implies ``dask``.
        progress: True: show bars, in a terminal or a notebook; or something that is told what is being done.
        context: Where the evaluation comes from, for the result.

    Returns:
        The labelled result (see `docs/results.md`); `.unmask` holds the measures.

    Raises:
        UserError: Wrong input, in words, before any attack work.
        UnsavedError: All is done, but `out` has no room for the result; it carries the result.
    """
    context = context or RunContext()
    # Whatever code of plugins makes of the working directory.
    out = None if out is None else Path(out).absolute()
    named = check_models(models)
    configured = check_attacks(attacks)
    one_of(norm, NORMS, "norm")
    radii = parse_radii(epsilons, norm=norm)
    one_of(precision, PRECISIONS, "precision")
    one_of(prepare, PREPARATIONS, "prepare")
    one_of(protocol, PROTOCOLS, "protocol")
    measures = configure_metrics(metrics)
    if quantize is not None:
        one_of(quantize, QUANTIZERS, "quantize")
    held = keep_examples or quantize is not None or any(metric.needs_examples for metric in measures)
    whole_number(seed, "seed", optional=False, least=0)
    whole_number(batch_size, "batch_size")
    whole_number(max_queries, "max_queries")
    whole_number(draws, "draws", optional=False)
    chosen = EngineChoice.checked(engine, workers, scheduler)
    if timeout is not None and not timeout > 0:
        raise UserError(f"must be a positive number of seconds, not {timeout!r}.", where="timeout")
    rows = rows_of(configured, norm)
    data = attrs.evolve(check_samples(images, labels, check_bounds(bounds), sample_ids), name=context.data)
    sources = {
        reference.key: reference.module
        for attack in rows.values()
        for reference in references_of(attack.attack)
        if reference.module is not None
    }
    everything = {**named, **sources}
    with ExitStack() as stack:
        telling = stack.enter_context(shown(progress))
        # Whatever mode the caller is in, attacks need gradients.
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(placed_on(list(everything.values()), device))
        facts = {
            name: inspect_model(model, data.images, data.labels, name=name)
            for name, model in everything.items()
        }
        subjects = {name: facts[name] for name in named}
        diagnosis = Diagnosis.none()
        if diagnose:
            with surviving("the attacks were completed for the diagnosis", "diagnose"):
                diagnosis = Diagnosis.of(rows, subjects, norm, radii, data.images[0])
            configured, rows = {**configured, **diagnosis.attacks}, {**rows, **diagnosis.attacks}
        with surviving("the attacks were checked", "attacks"):
            left_out = {**check_applicability(configured, subjects, norm), **diagnosis.left_out}
            targets = check_targets(rows, data, subjects)
            check_further_data(rows, data, targets)
        visit = stack.enter_context(guests(everything.values()))
        oracles = {
            name: Oracle(known, batch_size or rows_at_once(data.images[0])) for name, known in facts.items()
        }
        plan = Plan(
            subjects=[Subject(name, oracles[name], oracles, tuple(named)) for name in named],
            attacks=rows,
            left_out=left_out,
            data=data,
            epsilons=radii,
            settings=CellSettings(
                norm=norm,
                bounds=data.bounds,
                seed=seed,
                draws=draws,
                max_queries=max_queries,
                timeout=timeout,
                kernels=catalog().kernels(),
                keep_examples=held,
                targets=targets,
                protocol=cast("Protocol", protocol),
            ),
            limits=dict.fromkeys(diagnosis.attacks, DIAGNOSED),
            alone=diagnosis.alone,
            visit=visit,
        )
        folder = None
        if out is not None:
            folder = RunFolder(
                out,
                fingerprint.of_plan(plan, everything, precision, prepare),
                # What a process before this one has begun anew is gone on with.
                fresh=fresh and news(f"begun anew: {out}"),
                exclusive=True,
                warn=telling.warn,
            )
            stack.enter_context(folder)
        preparation = Preparation.planned(
            plan, prepare=prepare, precision=precision, batch_size=batch_size, folder=folder
        )
        bare, plan = plan, preparation.applied(plan, facts)
        with chosen.opened(plan, bare, preparation, facts) as runner, interrupt.finishing():
            clean, cells = run_plan(plan, folder, telling, runner)
    warnings = [
        *context.warnings,
        *_notes(facts),
        *_notes_on_clean(clean),
        *notes_on_targets(targets, data),
        *preparation.notes,
        *runner.notes(),
        *note_on_borderline(cells.values()),
        *(folder.notes() if folder else []),
    ]
    result = assemble(
        models=[model_label(facts[name], draws, protocol, context.descriptions) for name in named],
        attacks=[attack_label(name, attack) for name, attack in rows.items()],
        epsilons=radii,
        sample_ids=data.ids.numpy(),
        labels=data.labels.numpy(),
        clean=clean,
        cells=cells,
        provenance=Provenance(
            title=context.title,
            unmask_version=metadata.version("unmask"),
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            norm=norm,
            bounds=data.bounds,
            seed=seed,
            protocol=protocol,
            precision=precision,
            device=str(next(iter(facts.values())).device),
            versions=versions(),
            manifest=context.manifest,
            data=context.data,
            samples_sha256=fingerprint.of_samples(data),
            warnings=warnings,
        ),
    )
    computed = {**computed_on(next(iter(facts.values())).device), **chosen.record()}
    result = result.assign_attrs(
        preparation=json.dumps(preparation.record()),
        computed=json.dumps(computed),
        plugins=json.dumps(plugins_used(catalog())),
        manifest_folder=context.folder,
    )
    if keep_examples:
        # What a perturbation is measured against belongs to it.
        kept = data.images.float().cpu().numpy()
        described = {"units": "pixel value", "long_name": "clean image"}
        result = result.assign(image=((SAMPLE, CHANNEL, HEIGHT, WIDTH), kept, described))
    if diagnose or trace or measures or quantize is not None:
        with placed_on(list(everything.values()), device), guests(everything.values()):
            if diagnose:
                result = with_slopes(result, plan.subjects, data, plan.settings)
            if trace:
                result = with_traces(result, plan.subjects, rows, data, plan.settings)
            if quantize is not None:
                result = with_quantized(result, plan.subjects, data, plan.settings)
            if measures or quantize is not None:
                result = with_metrics(result, measures, plan.subjects, data, plan.settings)
    if not keep_examples and "adversarial" in result:
        result = result.drop_vars("adversarial")
    import unmask.results.accessor  # noqa: F401 - registers `.unmask`

    if out is not None:
        try:
            save(result, Path(out) / "results.nc")
        except UserError as error:
            raise UnsavedError(error.message, file=error.file, results=result) from error
    return result


def _notes_on_clean(clean: Mapping[str, CleanOutcome]) -> list[str]:
    """What only a look at all clean images can tell."""
    # The margin of logits that are not finite is -inf.
    silent = {name: int(np.isneginf(outcome.margin).sum()) for name, outcome in clean.items()}
    return [
        f"model '{name}' answers {count} of {len(clean[name])} clean images with logits that are NaN or "
        "infinite; they count as wrong."
        for name, count in silent.items()
        if count
    ]


def _notes(facts: Mapping[str, ModelFacts]) -> list[str]:
    return [f"model '{name}' {note}." for name, known in facts.items() for note in known.notes]
