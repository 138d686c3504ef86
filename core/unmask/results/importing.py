"""Results that other tools wrote, entered as far as they tell.

What they do not tell is not made up. A file that has only rates becomes as many anonymous samples as there
were, with ids below zero: their number in each state is known exactly, and nothing can pair them with the
samples of another result.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from unmask.compat.state import EvaluationState, looks_like_state
from unmask.dimensions import Status
from unmask.errors import UserError
from unmask.option_values import exact_float
from unmask.results.layout import UNKNOWN, UNKNOWN_SEED, AttackLabel, ModelLabel, Provenance, assemble
from unmask.results.outcome import CellOutcome, CleanOutcome

__all__ = ["Told", "import_results"]

NORMS = {"linf": "linf", "l2": "l2", "l1": "l1"}
SIZES = {"cifar10": 10000, "cifar100": 10000, "imagenet": 5000}
"""How many images RobustBench evaluates on."""

Floats = NDArray[np.float64]


@attrs.frozen
class Told:
    """What the user says of a file that does not say it itself; None: as the file says.

    Attributes:
        norm: The norm.
        epsilon: The radius.
        model: What the model is called.
        samples: How many images there were.
    """

    norm: str | None = None
    epsilon: str | None = None
    model: str | None = None
    samples: int | None = None


def import_results(file: Path, told: Told) -> xr.Dataset:
    """The result that a file of another tool tells.

    Args:
        file: A state file of AutoAttack, or RobustBench's JSON card of a model.
        told: What the file does not tell.

    Raises:
        UserError: It is neither, is damaged, or does not tell enough.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"cannot be read: {error}. Known: a state file of AutoAttack, a JSON card of RobustBench.",
            file=str(file),
        ) from error
    if looks_like_state(content):
        return _from_state(EvaluationState.from_json(content, str(file)), file, told)
    if isinstance(content, Mapping) and "clean_acc" in content:
        return _from_card(content, file, told)
    raise UserError(
        "is neither a state file of AutoAttack (with '_robust_flags') nor a card of RobustBench (with "
        "'clean_acc').",
        file=str(file),
    )


def _from_state(state: EvaluationState, file: Path, told: Told) -> xr.Dataset:
    norm = _norm(told.norm, file)
    epsilon = _epsilon(told.epsilon, file)
    if state.robust_flags is None:
        raise UserError("holds no sample yet: the evaluation was ended before it began.", file=str(file))
    robust = np.array(state.robust_flags, dtype=bool)
    n = len(robust)
    if told.samples is not None and told.samples != n:
        raise UserError(f"the file has {n} samples, not {told.samples}.", where="--samples", file=str(file))
    warnings = []
    clean = np.where(robust, 1.0, math.nan)
    if math.isfinite(state.clean_accuracy):
        right = _count(state.clean_accuracy, n, "'_clean_accuracy'", file, advice="The file is damaged.")
        if right < robust.sum():
            raise UserError(
                f"says that {right} of {n} samples were right without an attack and {robust.sum()} still "
                "are.",
                file=str(file),
            )
        if right == n:
            clean[:] = 1.0
        elif right == robust.sum():
            clean[~robust] = 0.0
        else:
            warnings.append(
                f"Clean accuracy was {right} of {n} ({right / n:.2%}), says {file.name}, but not which "
                "samples were wrong; their clean_correct is unknown."
            )
    else:
        warnings.append(f"{file.name} does not tell the clean accuracy.")
    missing = sorted(state.attacks_to_run - set(state.run_attacks))
    if missing:
        warnings.append(
            f"The evaluation was not finished: {', '.join(missing)} had not been run, so robust accuracy "
            "is an upper bound."
        )
    return _dataset(
        file=file,
        kind="a state file of AutoAttack",
        model=told.model or file.stem,
        norm=norm,
        epsilon=epsilon,
        ids=np.arange(n),
        clean=clean,
        correct=robust.astype(np.float64),
        settings={"attacks": sorted(state.attacks_to_run), "run": list(state.run_attacks)},
        data="",
        warnings=warnings,
        description={},
    )


def _from_card(card: Mapping[str, Any], file: Path, told: Told) -> xr.Dataset:
    if card.get("autoattack_acc") in (None, ""):
        reason = (
            "it is about common corruptions" if "corruptions_acc" in card else "it has no 'autoattack_acc'"
        )
        raise UserError(f"says nothing about adversarial attacks: {reason}.", file=str(file))
    data = str(card.get("dataset", ""))
    samples = told.samples if told.samples is not None else SIZES.get(data.lower().replace("-", ""))
    if samples is None:
        raise UserError(
            f"does not say how many images of '{data}' there were. Tell it: --samples 10000.", file=str(file)
        )
    if samples < 1:
        raise UserError(f"must be at least 1, not {samples}.", where="--samples")
    norm = _norm(told.norm or _known_norm(file.parent.name), file)
    epsilon = _epsilon(told.epsilon, file, card.get("eps"))
    right = _count(_rate(card, "clean_acc", file), samples, "'clean_acc'", file)
    stand = _count(_rate(card, "autoattack_acc", file), samples, "'autoattack_acc'", file)
    if stand > right:
        raise UserError("'autoattack_acc' is above 'clean_acc'.", file=str(file))
    warnings = [
        f"Made of the rates in {file.name}: how many samples fell is known, which is not. The samples are "
        "anonymous, with ids below zero, and cannot be compared with those of another result."
    ]
    external = _text(card.get("external"))
    if external:
        warnings.append(f"The card also names a lower accuracy by another attack: {external} %.")
    if str(card.get("unreliable", "")).lower() == "true":
        warnings.append("The card marks the evaluation as unreliable.")
    if _text(card.get("footnote")):
        warnings.append(f"The card says: {card['footnote']}")
    rows = np.arange(samples)
    kept = {key: card[key] for key in ("name", "authors", "link", "venue", "architecture") if card.get(key)}
    return _dataset(
        file=file,
        kind="a card of RobustBench",
        model=told.model or file.stem,
        norm=norm,
        epsilon=epsilon,
        ids=_anonymous(samples, card),
        clean=(rows < right).astype(np.float64),
        correct=(rows < stand).astype(np.float64),
        settings={"version": "standard", "claimed": _text(card.get("reported"))},
        data=data,
        warnings=warnings,
        description=kept,
    )


def _dataset(
    *,
    file: Path,
    kind: str,
    model: str,
    norm: str,
    epsilon: float,
    ids: NDArray[np.int64],
    clean: Floats,
    correct: Floats,
    settings: Mapping[str, Any],
    data: str,
    warnings: Sequence[str],
    description: Mapping[str, Any],
) -> xr.Dataset:
    n = len(ids)
    unknown, nobody = np.full(n, math.nan), np.full(n, -1)
    status = np.where(clean == 0, int(Status.CLEAN_ERROR), int(Status.OK))
    made_of = CleanOutcome(clean, clean, nobody, unknown, unknown)
    cell = CellOutcome(
        correct=correct,
        screening=correct,
        prediction=nobody,
        confidence=unknown,
        margin=unknown,
        distance=unknown,
        forwards=np.zeros(n),
        backwards=np.zeros(n),
        status=status,
        gradient_zero=unknown,
        gradient_nonfinite=unknown,
        gradient_norm=unknown,
        adversarial=None,
        seconds=math.nan,
        message="",
    )
    origin = (
        f"Imported from {kind}: judged by that tool, not here. Confidences, margins, distances and costs are "
        "not told."
    )
    results = assemble(
        models=[ModelLabel(name=model, description=description)],
        attacks=[
            AttackLabel(
                name="autoattack",
                use="autoattack",
                access="gradients",
                settings=settings,
                provider=f"imported from {kind}",
            )
        ],
        epsilons=[epsilon],
        sample_ids=ids,
        labels=nobody,
        clean={model: made_of},
        cells={(model, "autoattack", epsilon): cell},
        provenance=Provenance(
            title=file.stem,
            unmask_version=metadata.version("unmask"),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            norm=norm,
            bounds=(0.0, 1.0),
            seed=UNKNOWN_SEED,
            precision=UNKNOWN,
            device=UNKNOWN,
            versions={},
            data=data,
            warnings=[origin, *warnings],
        ),
    )
    # Zero would be a number of passes; nobody knows how many there were.
    for name in ("forwards", "backwards"):
        results[name] = results[name].astype(np.float64).where(False)
    return results.assign_attrs(imported_from=kind)


def _anonymous(samples: int, content: Mapping[str, Any]) -> NDArray[np.int64]:
    """Ids below zero that no other file's samples have."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()
    first = int.from_bytes(digest[:4], "big") * 2**30
    return -1 - first - np.arange(samples, dtype=np.int64)


def _text(value: Any) -> str | None:
    """A value of a card, which writes numbers as text; None where it is left out."""
    text = "" if value is None else str(value).strip()
    return text or None


def _known_norm(text: str) -> str | None:
    return NORMS.get(text.lower())


def _norm(text: str | None, file: Path) -> str:
    if text is None:
        raise UserError("does not tell the norm. Tell it: --norm linf (or l2, l1).", file=str(file))
    known = _known_norm(text)
    if known is None:
        raise UserError(f"must be linf, l2 or l1, not '{text}'.", where="--norm")
    return known


def _epsilon(text: str | None, file: Path, on_card: Any = None) -> float:
    """The radius that the user says, or else the card."""
    if text is not None:
        return _radius(text, "--epsilon")
    text = _text(on_card)
    if text is None:
        raise UserError("does not tell the radius. Tell it: --epsilon 8/255.", file=str(file))
    try:
        return _radius(text, "'eps'")
    except UserError as error:
        raise error.located(file=str(file)) from error


def _radius(text: str, where: str) -> float:
    epsilon = exact_float(text, where)
    if epsilon < 0:
        raise UserError(f"must not be negative: {text}.", where=where)
    return epsilon


def _rate(card: Mapping[str, Any], key: str, file: Path) -> float:
    try:
        percent = float(str(card[key]).strip().rstrip("%"))
    except (KeyError, ValueError) as error:
        raise UserError(f"'{key}' must be a percentage, not {card.get(key)!r}.", file=str(file)) from error
    if not 0 <= percent <= 100:
        raise UserError(f"'{key}' must be a percentage, not {percent}.", file=str(file))
    return percent / 100


def _count(
    rate: float, samples: int, what: str, file: Path, *, advice: str = "How many were there? --samples N."
) -> int:
    """How many samples a rate stands for.

    Raises:
        UserError: No whole number, to within the two decimals that percentages are written with.
    """
    count = round(rate * samples)
    if abs(count / samples - rate) > 0.5e-4 + 1e-9:
        raise UserError(
            f"{what}, {rate:.4%}, is no whole number of {samples} samples. {advice}", file=str(file)
        )
    return count
