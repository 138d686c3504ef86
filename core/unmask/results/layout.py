"""The labelled layout of a result: from outcomes to one xarray Dataset, without any judgement of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from unmask import dimensions as dim
from unmask.dimensions import Status
from unmask.results.outcome import CellOutcome, CleanOutcome

__all__ = ["UNKNOWN", "UNKNOWN_SEED", "AttackLabel", "ModelLabel", "Provenance", "assemble", "text_array"]

UNKNOWN, UNKNOWN_SEED = "unknown", -1
"""What stands for a precision, a device, or a seed that whoever made a result did not tell."""

_CELL = (dim.MODEL, dim.ATTACK, dim.EPSILON)
_EACH = (*_CELL, dim.SAMPLE)
_CLEAN = (dim.MODEL, dim.SAMPLE)

_CLEAN_VARIABLES = {
    "correct": ("clean_correct", "1", "probability that the clean image is classified right"),
    "screening": ("clean_screening", "1", "independent estimate of clean_correct"),
    "prediction": ("clean_prediction", "", "most likely class of the clean image"),
    "confidence": ("clean_confidence", "1", "largest softmax probability of the clean image"),
    "margin": ("clean_margin", "1", "logit of the label minus the largest other, clean image"),
}
_CLEAN_OPTIONAL = {
    "label_probability": ("clean_label_probability", "1", "softmax probability of the label, clean image"),
    "squared_probability": (
        "clean_squared_probability",
        "1",
        "sum of the squared softmax probabilities, clean image",
    ),
}
_CELL_VARIABLES = {
    "correct": ("1", "probability that the final example is classified right"),
    "screening": ("1", "independent estimate of correct, for choosing the worst attack"),
    "prediction": ("", "most likely class of the final example"),
    "confidence": ("1", "largest softmax probability of the final example"),
    "margin": ("1", "logit of the label minus the largest other"),
    "distance": ("pixel value", "size of the perturbation in the norm of the run"),
    "forwards": ("1", "forward passes"),
    "backwards": ("1", "backward passes"),
    "status": ("", "what became of the sample"),
    "gradient_zero": ("1", "share of gradients that were exactly zero"),
    "gradient_nonfinite": ("1", "share of gradients that were not finite"),
    "gradient_norm": ("1 / pixel value", "mean l2 norm of the gradients"),
}


@attrs.frozen
class ModelLabel:
    """How a model is called and what kind it is.

    Attributes:
        name: Its name in the run.
        randomness: ``deterministic``, ``enumerated`` (exact expectation over members) or ``drawn``.
        draws: Fresh draws behind every probability; 0 where it is exact.
        front_end: It has a front end.
        description: Everything else worth keeping (options, sha256 of weights, ...), JSON-able.
    """

    name: str
    randomness: Literal["deterministic", "enumerated", "drawn"] = "deterministic"
    draws: int = 0
    front_end: bool = False
    description: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class AttackLabel:
    """How an attack is called and what it was set to.

    Attributes:
        name: Its name in the run.
        use: Its registered name.
        access: ``gradients``, ``scores``, ``labels`` or ``transfer``.
        gradient: Name of its gradient source, "" where it has none.
        search: ``within`` or ``nearest``.
        settings: Every option including defaults, JSON-able.
        provider: ``distribution/entry-point``.
    """

    name: str
    use: str
    access: str
    gradient: str = ""
    search: str = "within"
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    provider: str = ""


@attrs.frozen(kw_only=True)
class Provenance:
    """Where a result comes from; becomes the attributes of the Dataset.

    Attributes:
        title: What the run is called.
        unmask_version: Version that made it.
        created: ISO 8601 time.
        norm: ``linf``, ``l2``, ``l1`` or ``l0``.
        bounds: Smallest and largest valid pixel value.
        seed: Seed of every random stream.
        protocol: How randomised models were scored: ``expected`` or ``single-draw``.
        precision: Floating-point type of the evaluation.
        device: Where it ran.
        versions: Of Python and of everything that computed, by name.
        manifest: Its text, "" without one.
        data: Name of the data set.
        samples_sha256: Of images and labels.
        warnings: Sentences the reader must see.
    """

    title: str
    unmask_version: str
    created: str
    norm: str
    bounds: tuple[float, float]
    seed: int
    precision: str
    device: str
    versions: Mapping[str, str]
    manifest: str = ""
    protocol: str = "expected"
    data: str = ""
    samples_sha256: str = ""
    warnings: Sequence[str] = ()

    def attributes(self) -> dict[str, Any]:
        """As netCDF attributes: nested values are JSON text."""
        fields = attrs.asdict(self, recurse=False)
        for name in ("bounds", "warnings"):
            fields[name] = json.dumps(list(fields[name]))
        fields["versions"] = json.dumps(dict(self.versions), sort_keys=True)
        return {
            "title": fields.pop("title"),
            "Conventions": "CF-1.11",
            "schema_version": dim.SCHEMA_VERSION,
            **fields,
        }


def text_array(values: Sequence[Any] | np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.object_]]:
    """Text of any length; fixed-width text would be cut where arrays of different widths meet."""
    array = np.asarray(values, dtype=object)
    return np.array([str(v) for v in array.ravel()], dtype=object).reshape(array.shape)


def assemble(
    *,
    models: Sequence[ModelLabel],
    attacks: Sequence[AttackLabel],
    epsilons: Sequence[float],
    sample_ids: ArrayLike,
    labels: ArrayLike,
    clean: Mapping[str, CleanOutcome],
    cells: Mapping[tuple[str, str, float], CellOutcome],
    provenance: Provenance,
) -> xr.Dataset:
    """One Dataset over model, attack, epsilon and sample.

    Args:
        models: In the order of the result.
        attacks: Likewise.
        epsilons: Radii in units of a pixel value.
        sample_ids: The data set's own index of every sample [sample].
        labels: Their classes [sample].
        clean: Outcome of every model, by name.
        cells: Outcomes by (model, attack, epsilon); a missing one is entered as not run.
        provenance: Becomes the attributes.

    Raises:
        ValueError: An outcome with the wrong number of samples, one that belongs to no cell, a name that
            occurs twice, or a model without a clean outcome.
    """
    ids = np.asarray(sample_ids, dtype=np.int64)
    n = len(ids)
    model_names, attack_names = [m.name for m in models], [a.name for a in attacks]
    radii = [float(e) for e in epsilons]
    shape = len(models), len(attacks), len(radii)
    keys = [(m, a, e) for m in model_names for a in attack_names for e in radii]
    if tuple(len(set(part)) for part in (model_names, attack_names, radii)) != shape:
        raise ValueError(f"a name or radius occurs twice in {model_names}, {attack_names}, {radii}")
    strange = set(cells) - set(keys)
    if strange:
        raise ValueError(f"outcomes of cells that are not in the run: {sorted(strange)}")
    if set(clean) != set(model_names):
        raise ValueError(f"clean outcomes of {sorted(clean)} for the models {model_names}")
    filled = {key: cells[key] if key in cells else CellOutcome.not_run(n, "was not run") for key in keys}
    lengths = {name: len(outcome) for part in (filled, clean) for name, outcome in part.items()}
    if set(lengths.values()) - {n}:
        raise ValueError(f"the run has {n} samples, its outcomes {lengths}")

    variables: dict[str, Any] = {}
    for field, (name, unit, meaning) in _CLEAN_VARIABLES.items():
        stacked = np.stack([getattr(clean[m], field) for m in model_names])
        variables[name] = (_CLEAN, stacked, _described(unit, meaning))
    for field, (name, unit, meaning) in _CLEAN_OPTIONAL.items():
        if all(getattr(clean[m], field) is not None for m in model_names):
            stacked = np.stack([getattr(clean[m], field) for m in model_names])
            variables[name] = (_CLEAN, stacked, _described(unit, meaning))
    for field, (unit, meaning) in _CELL_VARIABLES.items():
        stacked = np.stack([getattr(o, field) for o in filled.values()]).reshape(*shape, n)
        variables[field] = (_EACH, stacked, _described(unit, meaning))
    variables["status"][2].update(_flags())
    variables["seconds"] = (
        _CELL,
        np.array([o.seconds for o in filled.values()]).reshape(shape),
        _described("s", "wall time"),
    )
    variables["message"] = (
        _CELL,
        text_array([o.message for o in filled.values()]).reshape(shape),
        _described("", "why the cell failed or was not run"),
    )
    variables.update(_where_kept(filled, shape, n))
    return xr.Dataset(variables, _coordinates(models, attacks, radii, ids, labels), provenance.attributes())


def _where_kept(
    cells: Mapping[tuple[str, str, float], CellOutcome], shape: tuple[int, ...], n: int
) -> dict[str, Any]:
    """Arrays that only some cells have; NaN in the others, absent when none has them."""
    found: dict[str, Any] = {}
    for name, dims, unit, meaning in (
        ("adversarial", (dim.CHANNEL, dim.HEIGHT, dim.WIDTH), "pixel value", "final example"),
        ("target_reached", (), "1", "probability that the example is classified as the attacker's target"),
        ("label_probability", (), "1", "softmax probability of the label at the final example"),
        ("searched_twice", (), "1", "1 where the search in half precision was repeated in float32"),
        ("squared_probability", (), "1", "sum of the squared softmax probabilities at the final example"),
        ("raw_correct", (), "1", "probability of the right class, whatever smaller radii found"),
        ("overlooked", (), "1", "1 where the attack did not return an example that it had passed"),
    ):
        kept = [getattr(o, name) for o in cells.values()]
        example = next((array for array in kept if array is not None), None)
        if example is None:
            continue
        whole = np.full((len(kept), n, *example.shape[1:]), np.nan, dtype=example.dtype)
        for i, array in enumerate(kept):
            if array is not None:
                whole[i] = array
        found[name] = (
            (*_EACH, *dims),
            whole.reshape(*shape, n, *example.shape[1:]),
            _described(unit, meaning),
        )
    return found


def _coordinates(
    models: Sequence[ModelLabel],
    attacks: Sequence[AttackLabel],
    epsilons: Sequence[float],
    ids: np.ndarray[Any, np.dtype[np.int64]],
    labels: ArrayLike,
) -> dict[str, Any]:
    def described_json(value: Mapping[str, Any]) -> str:
        return json.dumps(dict(value), sort_keys=True, default=str)

    return {
        dim.MODEL: (dim.MODEL, text_array([m.name for m in models])),
        dim.ATTACK: (dim.ATTACK, text_array([a.name for a in attacks])),
        dim.EPSILON: (
            dim.EPSILON,
            np.array(epsilons, dtype=np.float64),
            _described("pixel value", "largest size of the perturbation"),
        ),
        dim.SAMPLE: (dim.SAMPLE, ids, _described("", "index in the data set")),
        "label": (dim.SAMPLE, np.asarray(labels, dtype=np.int64), _described("", "class of the sample")),
        "randomness": (dim.MODEL, text_array([m.randomness for m in models])),
        "draws": (dim.MODEL, np.array([m.draws for m in models], dtype=np.int64)),
        "front_end": (dim.MODEL, np.array([m.front_end for m in models], dtype=bool)),
        "description": (dim.MODEL, text_array([described_json(m.description) for m in models])),
        "use": (dim.ATTACK, text_array([a.use for a in attacks])),
        "access": (dim.ATTACK, text_array([a.access for a in attacks])),
        "gradient": (dim.ATTACK, text_array([a.gradient for a in attacks])),
        "search": (dim.ATTACK, text_array([a.search for a in attacks])),
        "settings": (dim.ATTACK, text_array([described_json(a.settings) for a in attacks])),
        "provider": (dim.ATTACK, text_array([a.provider for a in attacks])),
    }


def _described(unit: str, meaning: str) -> dict[str, Any]:
    return {"units": unit, "long_name": meaning} if unit else {"long_name": meaning}


def _flags() -> dict[str, Any]:
    return {
        "flag_values": np.array([s.value for s in Status], dtype=np.int8),
        "flag_meanings": " ".join(s.name.lower() for s in Status),
    }
