"""What was found out: about one model on clean images, and about one cell of the evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import attrs
import numpy as np
from numpy.typing import NDArray

from unmask.dimensions import Status

__all__ = ["CellOutcome", "CleanOutcome"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def _floats(values: Any) -> Floats:
    return np.array(values, dtype=np.float64)


def _integers(values: Any) -> Integers:
    return np.array(values, dtype=np.int64)


def _flags(values: Any) -> NDArray[np.int8]:
    return np.array(values, dtype=np.int8)


def _maybe_floats(values: Any) -> Floats | None:
    return None if values is None else np.array(values, dtype=np.float64)


def _maybe_images(values: Any) -> NDArray[np.float32] | None:
    return None if values is None else np.array(values, dtype=np.float32)


_EACH: Mapping[str, bool] = {"per_sample": True}
_OPTIONAL = (
    "adversarial",
    "target_reached",
    "target_screening",
    "target_clean",
    "label_probability",
    "squared_probability",
    "searched_twice",
    "raw_correct",
    "overlooked",
)
"""Arrays of a cell that need not be there."""


@attrs.frozen(eq=False)
class _Outcome:
    """Arrays with one row per sample.

    Attributes:
        message: Why it is not known, or only in part; else "".
    """

    message: str = attrs.field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        lengths = {name: len(array) for name, array in self.arrays().items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"an outcome has one row per sample in every array, not {lengths}")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The per-sample arrays that are there, by name."""
        fields = [a.name for a in attrs.fields(type(self)) if a.metadata.get("per_sample")]
        return {name: getattr(self, name) for name in fields if getattr(self, name) is not None}

    def select(self, rows: Any) -> Self:
        """The samples at these positions (indices or a mask), in this order."""
        return self._with(**{name: array[rows] for name, array in self.arrays().items()})

    @property
    def complete(self) -> bool:
        """It has what every judgement gives; one kept by an older version may not."""
        return all(getattr(self, name) is not None for name in ("label_probability", "squared_probability"))

    def _with(self, **arrays: NDArray[Any]) -> Self:
        changes: dict[str, Any] = arrays
        return attrs.evolve(self, **changes)

    def __len__(self) -> int:
        return len(next(iter(self.arrays().values())))


def _told(parts: Sequence[_Outcome]) -> str:
    return "; ".join(dict.fromkeys(part.message for part in parts if part.message))


def _joined(parts: Sequence[_Outcome]) -> dict[str, NDArray[Any]]:
    if not parts:
        raise ValueError("there is nothing to concatenate")
    names = {frozenset(part.arrays()) for part in parts}
    if len(names) > 1:
        raise ValueError(f"the parts hold different arrays: {[sorted(n) for n in names]}")
    return {name: np.concatenate([part.arrays()[name] for part in parts]) for name in parts[0].arrays()}


@attrs.frozen(eq=False)
class CleanOutcome(_Outcome):
    """What one model says about the clean images.

    Attributes:
        correct: Probability, over the model's own randomness, of the right class; float64 [sample].
        screening: An estimate of the same that is independent of `correct` (equal to it where exact).
        prediction: Most likely class, int64 [sample].
        confidence: Largest softmax probability [sample].
        margin: Logit of the label minus the largest other [sample].
        label_probability: Softmax probability of the label [sample]; None where it was not kept.
        squared_probability: Sum over classes of the squared softmax probabilities [sample]; likewise.
        message: Why the model did not answer, else "".
    """

    correct: Floats = attrs.field(converter=_floats, metadata=_EACH)
    screening: Floats = attrs.field(converter=_floats, metadata=_EACH)
    prediction: Integers = attrs.field(converter=_integers, metadata=_EACH)
    confidence: Floats = attrs.field(converter=_floats, metadata=_EACH)
    margin: Floats = attrs.field(converter=_floats, metadata=_EACH)
    label_probability: Floats | None = attrs.field(
        default=None, converter=_maybe_floats, metadata=_EACH, kw_only=True
    )
    squared_probability: Floats | None = attrs.field(
        default=None, converter=_maybe_floats, metadata=_EACH, kw_only=True
    )

    @property
    def finished(self) -> bool:
        """The model has answered."""
        return not self.message

    @classmethod
    def failed(cls, n: int, message: str) -> CleanOutcome:
        """What a model that broke down makes of `n` clean images: nothing is known."""
        unknown, nobody = np.full(n, np.nan), np.full(n, -1)
        return cls(
            unknown, unknown, nobody, unknown, unknown,
            label_probability=unknown, squared_probability=unknown, message=message,
        )  # fmt: skip

    @classmethod
    def concatenate(cls, parts: Sequence[CleanOutcome]) -> CleanOutcome:
        """Shards of one model's samples, one after the other; messages are kept once each."""
        return cls(**_joined(parts), message=_told(parts))


@attrs.frozen(eq=False)
class CellOutcome(_Outcome):
    """What one cell (model, attack, epsilon; all samples or a shard of them) found.

    Attributes:
        correct: Probability, over the model's own randomness, that the final example is classified as its
            label; float64 [sample], NaN where unknown.
        screening: An independent estimate of the same, for choosing among attacks; equal where exact.
        prediction: Most likely class at the final example, int64 [sample]; -1 where unknown.
        confidence: Largest softmax probability there [sample].
        margin: Logit of the label minus the largest other [sample].
        distance: Size of the perturbation in the run's norm [sample]; +inf: a nearest search found nothing.
        forwards: Forward passes spent, int64 [sample].
        backwards: Backward passes spent, int64 [sample].
        status: `unmask.dimensions.Status`, int8 [sample].
        gradient_zero: Share of the backward passes that gave exactly zero [sample]; NaN without any.
        gradient_nonfinite: Share that gave NaN or infinity [sample]; NaN without any.
        gradient_norm: Mean l2 norm of the gradients [sample]; NaN without any.
        adversarial: The final examples, float32 [sample, channel, height, width]; None when not kept.
        target_reached: Probability that the example is classified as the attacker's target [sample]; None
            for untargeted attacks, NaN where the target is the label.
        target_screening: An independent estimate of the same, for choosing among examples; equal where exact.
        target_clean: The same for the clean image.
        label_probability: Softmax probability of the label [sample]; None where it was not kept.
        squared_probability: Sum over classes of the squared softmax probabilities [sample]; likewise.
        searched_twice: 1 where a search in half precision was repeated in float32, else 0 [sample]; None
            where the run is in float32.
        raw_correct: `correct` as this search alone left it, whatever smaller radii found [sample]; None
            where the search was spared the samples that had fallen there.
        overlooked: 1 where the attack returned an example that fails although one it had shown to the model
            on the way succeeds, else 0 [sample]; None where that cannot be told.
        seconds: Wall time.
        message: Why the cell failed or was not run, else "".
    """

    correct: Floats = attrs.field(converter=_floats, metadata=_EACH)
    screening: Floats = attrs.field(converter=_floats, metadata=_EACH)
    prediction: Integers = attrs.field(converter=_integers, metadata=_EACH)
    confidence: Floats = attrs.field(converter=_floats, metadata=_EACH)
    margin: Floats = attrs.field(converter=_floats, metadata=_EACH)
    distance: Floats = attrs.field(converter=_floats, metadata=_EACH)
    forwards: Integers = attrs.field(converter=_integers, metadata=_EACH)
    backwards: Integers = attrs.field(converter=_integers, metadata=_EACH)
    status: NDArray[np.int8] = attrs.field(converter=_flags, metadata=_EACH)
    gradient_zero: Floats = attrs.field(converter=_floats, metadata=_EACH)
    gradient_nonfinite: Floats = attrs.field(converter=_floats, metadata=_EACH)
    gradient_norm: Floats = attrs.field(converter=_floats, metadata=_EACH)
    adversarial: NDArray[np.float32] | None = attrs.field(
        default=None, converter=_maybe_images, metadata=_EACH, kw_only=True
    )
    target_reached: Floats | None = attrs.field(
        default=None, converter=_maybe_floats, metadata=_EACH, kw_only=True
    )
    target_screening: Floats | None = attrs.field(
        default=None, converter=_maybe_floats, metadata=_EACH, kw_only=True
    )
    target_clean: Floats | None = attrs.field(
        default=None, converter=_maybe_floats, metadata=_EACH, kw_only=True
    )
    label_probability: Floats | None = attrs.field(
        default=None, converter=_maybe_floats, metadata=_EACH, kw_only=True
    )
    squared_probability: Floats | None = attrs.field(
        default=None, converter=_maybe_floats, metadata=_EACH, kw_only=True
    )
    searched_twice: Floats | None = attrs.field(
        default=None, converter=_maybe_floats, metadata=_EACH, kw_only=True
    )
    raw_correct: Floats | None = attrs.field(
        default=None, converter=_maybe_floats, metadata=_EACH, kw_only=True
    )
    overlooked: Floats | None = attrs.field(
        default=None, converter=_maybe_floats, metadata=_EACH, kw_only=True
    )
    seconds: float = attrs.field(default=0.0, converter=float, kw_only=True)

    @property
    def finished(self) -> bool:
        """Every sample has an outcome: none failed and none was left out."""
        return not np.isin(self.status, (Status.FAILED, Status.NOT_RUN)).any()

    @classmethod
    def failed(cls, n: int, message: str, *, seconds: float = 0.0) -> CellOutcome:
        """A cell of `n` samples that broke down; nothing is known about them."""
        return cls._unknown(n, Status.FAILED, message, seconds)

    @classmethod
    def not_run(cls, n: int, message: str) -> CellOutcome:
        """A cell of `n` samples that the attack does not apply to, or was not reached."""
        return cls._unknown(n, Status.NOT_RUN, message, 0.0)

    @classmethod
    def _unknown(cls, n: int, status: Status, message: str, seconds: float) -> CellOutcome:
        unknown, none = np.full(n, np.nan), np.zeros(n, np.int64)
        return cls(
            correct=unknown,
            screening=unknown,
            prediction=np.full(n, -1),
            confidence=unknown,
            margin=unknown,
            distance=unknown,
            forwards=none,
            backwards=none,
            status=np.full(n, status),
            gradient_zero=unknown,
            gradient_nonfinite=unknown,
            gradient_norm=unknown,
            seconds=seconds,
            message=message,
        )

    @classmethod
    def concatenate(cls, parts: Sequence[CellOutcome]) -> CellOutcome:
        """Shards of one cell, one after the other; seconds add up, messages are kept once each.

        Arrays that only some shards have (examples of a cell that failed in part) become NaN elsewhere.
        """
        whole = [part for part in parts if len(part)] or list(parts)
        for name in _OPTIONAL:
            known = [getattr(part, name) for part in whole if getattr(part, name) is not None]
            if known and len(known) < len(whole):
                shape = known[0].shape[1:]
                whole = [
                    part
                    if getattr(part, name) is not None
                    else part._with(**{name: np.full((len(part), *shape), np.nan)})
                    for part in whole
                ]
        return cls(**_joined(whole), seconds=sum(part.seconds for part in parts), message=_told(parts))
