"""`unmask.evaluate`: models, attacks and radii in, one labelled result out."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
import torch
from torch import nn

from unmask.components import ConfiguredAttack, as_configured
from unmask.dimensions import CHANNEL, DIAGNOSE, HEIGHT, SAMPLE, WIDTH, is_diagnostic
from unmask.engines.choice import EngineChoice
from unmask.errors import MisuseError, UserError, suggestion
from unmask.evaluation import fingerprint, interrupt
from unmask.evaluation.applicability import check_applicability, references_of
from unmask.evaluation.batching import rows_at_once
from unmask.evaluation.borderline import note_on_borderline
from unmask.evaluation.cells import CellSettings, Subject
from unmask.evaluation.circumstances import computed_on, plugins_used
from unmask.evaluation.diagnosing import DIAGNOSED, Diagnosis
from unmask.evaluation.inputs import check_bounds, check_samples
from unmask.evaluation.inspection import ModelFacts, inspect_model
from unmask.evaluation.judge import PROTOCOLS, Protocol
from unmask.evaluation.measuring import configure_metrics, with_metrics
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.preparation.preparing import Preparation
from unmask.evaluation.progress import Progress, Silent
from unmask.evaluation.quantization import with_quantized
from unmask.evaluation.schedule import Plan, run_plan
from unmask.evaluation.slopes import with_slopes
from unmask.evaluation.suite import rows_of
from unmask.evaluation.targeting import check_targets, notes_on_targets
from unmask.evaluation.threat import NORMS
from unmask.manifest.radii import parse_radii
from unmask.manifest.spec import PRECISIONS, PREPARATIONS, QUANTIZERS
from unmask.models.device import choose_device
from unmask.models.guest import guests
from unmask.plugins.catalog import catalog
from unmask.results.folder import RunFolder
from unmask.results.layout import AttackLabel, ModelLabel, Provenance, assemble
from unmask.results.storage import save

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["RunContext", "evaluate"]

DRAWS = 96
"""Draws that stand for an expectation, unless told otherwise; a sample's standard error is at most 0.051."""

_DISTRIBUTIONS = ("torch", "torchvision", "timm", "numpy", "scipy", "xarray", "netCDF4", "pluggy", "attrs")


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


def _check_models(models: Any) -> dict[str, nn.Module]:
    if isinstance(models, nn.Module):
        models = {"model": models}
    if not isinstance(models, Mapping):
        raise MisuseError(
            f"must be a mapping from names to models, not {type(models).__name__}.", where="models"
        )
    if not models:
        raise UserError("is empty; give at least one model.", where="models")
    for name, model in models.items():
        if not isinstance(name, str) or not name:
            raise MisuseError(f"the name {name!r} must be text.", where="models")
        if not isinstance(model, nn.Module):
            raise MisuseError(
                f"must be a torch.nn.Module from images to logits, not {type(model).__name__}.",
                where=f"models.{name}",
            )
    return dict(models)


def _check_attacks(attacks: Any) -> dict[str, ConfiguredAttack]:
    if isinstance(attacks, (list, tuple)) and all(isinstance(a, str) for a in attacks):
        attacks = {name: name for name in attacks}
    if not isinstance(attacks, Mapping):
        raise MisuseError(
            f"must be a mapping from names to attacks, not {type(attacks).__name__}.", where="attacks"
        )
    if not attacks:
        raise UserError("is empty; give at least one attack, such as {'pgd': 'pgd'}.", where="attacks")
    found = {}
    for name, value in attacks.items():
        if not isinstance(name, str) or not name:
            raise MisuseError(f"the name {name!r} must be text.", where="attacks")
        if name == DIAGNOSE or is_diagnostic(name):
            raise UserError(
                f"names that begin with '{DIAGNOSE}' are the run's own; give the attack another.",
                where=f"attacks.{name}",
            )
        try:
            found[name] = as_configured(value)
        except UserError as error:
            raise error.located(where=f"attacks.{name}") from error
    return found


def _whole_number(value: Any, where: str, *, optional: bool = True, least: int = 1) -> None:
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise MisuseError(f"must be a whole number, not {value!r}.", where=where)
    if value < least:
        raise UserError(f"must be at least {least}, not {value}.", where=where)


def _one_of(value: Any, known: Sequence[str], where: str) -> None:
    if value not in known:
        raise UserError(f"'{value}' is unknown. {suggestion(str(value), known)}", where=where)


@contextmanager
def _placed_on(models: Sequence[nn.Module], device: str | torch.device | None) -> Iterator[None]:
    """Models on a device for a while; each goes back to where it was."""
    if device is None:
        yield
        return
    place = choose_device(str(device))
    homes = []
    for model in models:
        devices = {tensor.device for tensor in [*model.parameters(), *model.buffers()]}
        homes.append(devices.pop() if len(devices) == 1 else None)
        if devices and len(devices) > 1:
            raise UserError("a model lies on several devices; leave the device out.", where="device")
    try:
        for model in models:
            model.to(place)
        yield
    finally:
        for model, home in zip(models, homes, strict=True):
            if home is not None:
                model.to(home)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "unmask": metadata.version("unmask")}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


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
    max_queries: int | None = None,
    timeout: float | None = None,
    draws: int = DRAWS,
    protocol: str = "expected",
    fresh: bool = False,
    engine: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
    context: RunContext | None = None,
) -> xr.Dataset:
    """Attack models, judge what was found, and say what happened to every sample.

    Args:
        models: Classifiers by name: images to logits, in eval mode.
        images: Floats [sample, channel, height, width] in `bounds`; torch or NumPy.
        labels: Class indices [sample], any integer type.
        attacks: By name: what `unmask.attack` returns, a registered name, a table with ``use``, or an attack.
        epsilons: Radii; numbers, or text such as ``"8/255"``.
        norm: ``linf``, ``l2`` or ``l1``.
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
        progress: Told what is being done.
        context: Where the evaluation comes from, for the result.

    Returns:
        The labelled result (see `docs/results.md`); `.unmask` holds the measures.

    Raises:
        UserError: Wrong input, in words, before any attack work.
    """
    context = context or RunContext()
    progress = progress or Silent()
    named = _check_models(models)
    configured = _check_attacks(attacks)
    radii = parse_radii(epsilons)
    _one_of(norm, NORMS, "norm")
    _one_of(precision, PRECISIONS, "precision")
    _one_of(prepare, PREPARATIONS, "prepare")
    _one_of(protocol, PROTOCOLS, "protocol")
    measures = configure_metrics(metrics)
    if quantize is not None:
        _one_of(quantize, QUANTIZERS, "quantize")
    held = keep_examples or quantize is not None or any(metric.needs_examples for metric in measures)
    _whole_number(seed, "seed", optional=False, least=0)
    _whole_number(batch_size, "batch_size")
    _whole_number(max_queries, "max_queries")
    _whole_number(draws, "draws", optional=False)
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
        stack.enter_context(_placed_on(list(everything.values()), device))
        facts = {
            name: inspect_model(model, data.images, data.labels, name=name)
            for name, model in everything.items()
        }
        subjects = {name: facts[name] for name in named}
        diagnosis = Diagnosis.none()
        if diagnose:
            diagnosis = Diagnosis.of(rows, subjects, norm, radii, data.images[0])
            configured, rows = {**configured, **diagnosis.attacks}, {**rows, **diagnosis.attacks}
        left_out = {**check_applicability(configured, subjects, norm), **diagnosis.left_out}
        targets = check_targets(rows, data, subjects)
        stack.enter_context(guests(everything.values()))
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
        )
        folder = None
        if out is not None:
            folder = RunFolder(
                out, _fingerprint(plan, everything, precision, prepare), fresh=fresh, exclusive=True
            )
            stack.enter_context(folder)
        preparation = Preparation.planned(
            plan, prepare=prepare, precision=precision, batch_size=batch_size, folder=folder
        )
        bare, plan = plan, preparation.applied(plan, facts)
        with chosen.opened(plan, bare, preparation, facts) as runner, interrupt.finishing():
            clean, cells = run_plan(plan, folder, progress, runner)
    warnings = [
        *context.warnings,
        *_notes(facts),
        *notes_on_targets(targets, data),
        *preparation.notes,
        *runner.notes(),
        *note_on_borderline(cells.values()),
        *(folder.warnings if folder else []),
    ]
    result = assemble(
        models=[_model_label(facts[name], draws, protocol, context) for name in named],
        attacks=[_attack_label(name, attack) for name, attack in rows.items()],
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
            versions=_versions(),
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
    if diagnose:
        with _placed_on(list(everything.values()), device), guests(everything.values()):
            result = with_slopes(result, plan.subjects, data, plan.settings)
    if measures or quantize is not None:
        with _placed_on(list(everything.values()), device), guests(everything.values()):
            if quantize is not None:
                result = with_quantized(result, plan.subjects, data, plan.settings)
            result = with_metrics(result, measures, plan.subjects, data, plan.settings)
    if not keep_examples and "adversarial" in result:
        result = result.drop_vars("adversarial")
    if out is not None:
        save(result, Path(out) / "results.nc")
    import unmask.results.accessor  # noqa: F401 - registers `.unmask`

    return result


def _notes(facts: Mapping[str, ModelFacts]) -> list[str]:
    return [f"model '{name}' {note}." for name, known in facts.items() for note in known.notes]


def _fingerprint(plan: Plan, models: Mapping[str, nn.Module], precision: str, prepare: str) -> dict[str, str]:
    """A hash for each part that the outcome depends on; batch size and device are none of them."""
    settings = plan.settings
    parts = {f"model '{name}'": fingerprint.of_model(model) for name, model in models.items()}
    parts |= {
        f"attack '{name}'": fingerprint.of_settings(
            {
                "use": attack.use,
                "provider": attack.provider,
                "options": attack.options,
                "max_queries": attack.max_queries,
                "timeout": attack.timeout,
                **attack.aim(),
            }
        )
        for name, attack in plan.attacks.items()
    }
    parts["samples"] = fingerprint.of_samples(plan.data)
    parts[
        "settings (norm, bounds, epsilons, seed, draws, protocol, limits, precision, form, kept examples)"
    ] = fingerprint.of_settings(
        {
            "norm": settings.norm,
            "bounds": settings.bounds,
            "epsilons": [epsilon.hex() for epsilon in plan.epsilons],
            "seed": settings.seed,
            "draws": settings.draws,
            "protocol": settings.protocol,
            "max_queries": settings.max_queries,
            "timeout": settings.timeout,
            "precision": precision,
            "prepare": prepare,
            "keep_examples": settings.keep_examples,
        }
    )
    parts["installed versions"] = fingerprint.of_settings(
        {name: version for name, version in _versions().items() if name in ("unmask", "torch")}
    )
    return parts


def _model_label(facts: ModelFacts, draws: int, protocol: str, context: RunContext) -> ModelLabel:
    if protocol == "single-draw":
        draws = 0 if facts.randomness == "deterministic" else 1
    elif facts.randomness != "drawn":
        draws = 0
    return ModelLabel(
        name=facts.name,
        randomness=facts.randomness,
        draws=draws,
        front_end=facts.has_front_end,
        description={"classes": facts.classes, **context.descriptions.get(facts.name, {})},
    )


def _attack_label(name: str, attack: ConfiguredAttack) -> AttackLabel:
    limits = {"max-queries": attack.max_queries, "timeout": attack.timeout}
    return AttackLabel(
        name=name,
        use=attack.use,
        access=attack.access,
        gradient=attack.gradient_name,
        search=attack.entry.search,
        settings={
            **attack.options,
            **{k: v for k, v in limits.items() if v is not None},
            **attack.aim(),
        },
        provider=attack.provider,
    )
