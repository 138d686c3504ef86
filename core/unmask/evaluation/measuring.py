"""Running the metrics of a run, after the attacks: each costs at most its own numbers when it fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import torch
from torch import Tensor

from unmask.building import build_component, find_component, split_use
from unmask.crashes import reason, tried
from unmask.dimensions import ATTACK, EPSILON, MODEL, SAMPLE
from unmask.errors import MisuseError
from unmask.evaluation.oracle import Oracle
from unmask.evaluation.random import SampleRandom
from unmask.measurement import Measured

if TYPE_CHECKING:
    import xarray as xr

    from unmask.data import LabelledImages
    from unmask.evaluation.subject import CellSettings, Subject

__all__ = ["ConfiguredMetric", "configure_metrics", "with_metrics"]


@attrs.frozen
class ConfiguredMetric:
    """A metric that was asked for.

    Attributes:
        name: What its numbers are stored under, where it gives a single array.
        measure: The metric itself.
        per_sample: It is a measurement of a model; otherwise a function of the result.
        settings: How it was asked for, JSON-able.
    """

    name: str
    measure: Callable[..., Any]
    per_sample: bool
    settings: Mapping[str, Any]

    @property
    def needs_examples(self) -> bool:
        """It reads the final examples."""
        return bool(getattr(self.measure, "needs_examples", False))


def configure_metrics(metrics: Any) -> list[ConfiguredMetric]:
    """Metrics by name, by a table with ``use`` and options, or as built by `unmask.metric`.

    Raises:
        UserError: One that does not exist, or an option it does not take.
    """
    if isinstance(metrics, str | Mapping) or not isinstance(metrics, Sequence):
        raise MisuseError(f"must be a list of metrics, not {type(metrics).__name__}.", where="metrics")
    found = []
    for i, asked in enumerate(metrics):
        where = f"metrics[{i}]"
        if isinstance(asked, str | Mapping):
            use, options = (asked, {}) if isinstance(asked, str) else split_use(asked, where, "metric")
            provided = find_component("metrics", use, where)
            built = build_component("metric", use, options, where=where, hyphens=False)
            settings = {"use": use, "options": options, "provider": provided.provider}
            dims: tuple[str, ...] = provided.entry.dims  # type: ignore[attr-defined]
            name = provided.name
        elif callable(asked):
            built, dims = asked, tuple(getattr(asked, "dims", ()))
            name = str(getattr(asked, "name", None) or getattr(asked, "__name__", type(asked).__name__))
            settings = {"use": name, "options": {"given": repr(asked)}, "provider": ""}
        else:
            raise MisuseError(
                f"must be the name of a metric, a table with 'use', or a metric, not {asked!r}.", where=where
            )
        found.append(ConfiguredMetric(name.replace("-", "_"), built, SAMPLE in dims, settings))
    return found


def with_metrics(
    results: xr.Dataset,
    metrics: Sequence[ConfiguredMetric],
    subjects: Sequence[Subject],
    data: LabelledImages,
    settings: CellSettings,
) -> xr.Dataset:
    """The result with what the metrics measured; one that fails is named among the warnings.

    Args:
        results: The result, `adversarial` in it where a metric needs examples.
        metrics: What to measure.
        subjects: The models, on their devices.
        data: The samples.
        settings: What all cells of the run share.
    """
    import xarray as xr

    warnings: list[str] = json.loads(results.attrs.get("warnings", "[]"))
    for metric in metrics:
        asked = str(metric.settings["use"])
        try:
            if metric.per_sample:
                parts = {}
                for subject in subjects:
                    try:
                        with tried({"metric": asked, "model": subject.name}):
                            measured = metric.measure(_measured(subject, results, data, settings))
                            parts[subject.name] = _as_dataset(metric, measured, warnings)
                    except Exception as cause:
                        warnings.append(
                            f"the metric '{asked}' failed on model '{subject.name}': {reason(cause)}."
                        )
                if not parts:
                    continue
                names = xr.DataArray(list(parts), dims=MODEL, name=MODEL).astype(object)
                values = xr.concat(list(parts.values()), names, combine_attrs="override")
                # NaN for the models that it failed on.
                values = values.reindex({MODEL: results[MODEL].values})
            else:
                with tried({"metric": asked}):
                    values = _as_dataset(metric, metric.measure(results), warnings)
            taken = sorted(set(map(str, values.data_vars)) & set(map(str, results.variables)))
            if taken:
                raise ValueError(f"it would overwrite {', '.join(taken)}")
            extra = [name for name in values.coords if name not in values.dims]
            results = results.assign(values.reset_coords(extra, drop=True).data_vars)
        except Exception as cause:
            # Whatever a plugin raises must cost its own numbers alone.
            warnings.append(f"the metric '{asked}' failed: {reason(cause)}.")
    settled = json.dumps([dict(metric.settings) for metric in metrics], default=str)
    return results.assign_attrs(metrics=settled, warnings=json.dumps(list(dict.fromkeys(warnings))))


def _as_dataset(metric: ConfiguredMetric, returned: Any, warnings: list[str]) -> xr.Dataset:
    import xarray as xr

    if isinstance(returned, xr.DataArray):
        returned = returned.rename(metric.name).to_dataset()
    elif isinstance(returned, Mapping) and not isinstance(returned, xr.Dataset):
        returned = xr.Dataset(dict(returned))
    if not isinstance(returned, xr.Dataset):
        raise TypeError(f"it returned {type(returned).__name__}, not a DataArray, a Dataset or a mapping")
    attributes = dict(returned.attrs)
    warnings.extend(str(sentence) for sentence in attributes.pop("warnings", []))
    return returned.drop_attrs(deep=False)


def _measured(
    subject: Subject, results: xr.Dataset, data: LabelledImages, settings: CellSettings
) -> Measured:
    oracle, here = subject.oracle, results.sel({MODEL: subject.name})
    facts = oracle.facts
    images = data.images.to(device=facts.device, dtype=facts.dtype)
    ids = data.ids.tolist()

    def random(*purpose: object) -> SampleRandom:
        return SampleRandom.for_samples(
            ids, "metric", settings.seed, subject.name, *purpose,
            kernels=settings.kernels, dtype=facts.dtype, device=facts.device,
        )  # fmt: skip

    def example(attack: int, epsilon: int) -> Tensor:
        kept = here["adversarial"].isel({ATTACK: attack, EPSILON: epsilon}).transpose(SAMPLE, ...)
        return torch.as_tensor(np.ascontiguousarray(kept.values), device=facts.device, dtype=facts.dtype)

    return Measured(
        name=subject.name,
        images=images,
        labels=data.labels.to(facts.device),
        norm=str(settings.norm),
        bounds=settings.bounds,
        results=here,
        logits=lambda images, random: answers(oracle, images, random),
        random=random,
        example=example,
    )


def answers(oracle: Oracle, images: Tensor, random: SampleRandom) -> Tensor:
    """One answer for every image, [n, class]: by one member, drawn where there are several."""
    members = oracle.members
    with torch.no_grad():
        if len(members) == 1 and not members[0].stochastic:
            return oracle.answer(members[0], images, None)
        limits = torch.tensor([member.probability for member in members], device=images.device).cumsum(0)
        drawn = torch.bucketize(random.uniform(()) * limits[-1], limits, right=True).clamp_max(
            len(members) - 1
        )
        seeds = random.integers(0, 2**31)
        logits = images.new_zeros((len(images), oracle.classes))
        for k, member in enumerate(members):
            rows = (drawn == k).nonzero().squeeze(1)
            if len(rows):
                given = seeds[rows] if member.stochastic else None
                logits[rows] = oracle.answer(member, images[rows], given).to(logits.dtype)
        return logits
