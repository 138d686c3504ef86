"""Names of dimensions, variables and statuses of a result. Nothing else spells them out."""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "ATTACK",
    "DIAGNOSE",
    "EPSILON",
    "MODEL",
    "SAMPLE",
    "SCHEMA_VERSION",
    "STEP",
    "TRACED",
    "Status",
    "is_diagnostic",
]

MODEL = "model"
ATTACK = "attack"
EPSILON = "epsilon"
SAMPLE = "sample"
CHANNEL = "channel"
HEIGHT = "height"
WIDTH = "width"
STEP = "step"

TRACED = {
    "trace_small": ("1", "share of entries of the input gradient below 0.01 in magnitude"),
    "trace_nan": ("1", "share of entries of the input gradient that are NaN"),
    "trace_infinite": ("1", "share of entries of the input gradient that are infinite"),
    "trace_mean": ("1 / pixel value", "mean magnitude of the input gradient's entries"),
    "trace_median": ("1 / pixel value", "median magnitude of the input gradient's entries"),
    "trace_quantile_99": (
        "1 / pixel value",
        "99 % quantile of the magnitudes of the input gradient's entries",
    ),
    "trace_skew": ("1", "skewness of the magnitudes of the input gradient's entries"),
}
"""What ``trace = true`` keeps of every gradient: unit and meaning by variable."""

DIAGNOSE = "diagnose"
"""Attacks that a run adds for its verdict stand in the attack dimension as ``diagnose/<what>``."""

SCHEMA_VERSION = 1
"""Version of the layout of a result file; raised when a reader of the old layout would misread the new."""


def is_diagnostic(attack: str) -> bool:
    """Whether a run added the attack of that name for its verdict; it may cover some of the samples only."""
    return attack.startswith(f"{DIAGNOSE}/")


class Status(IntEnum):
    """What became of one sample in one cell; stored as a CF flag variable."""

    OK = 0
    CLEAN_ERROR = 1
    """The clean image is misclassified already: no query was spent."""
    BUDGET_VIOLATION = 2
    """The attack's example left the ball and does not count."""
    BOX_VIOLATION = 3
    """The attack's example left the range of valid images and does not count."""
    NON_FINITE = 4
    """The example, or the model's logits at it, are NaN or infinite."""
    ZERO_GRADIENT = 5
    """Every gradient the attack received was exactly zero, and it found nothing."""
    FAILED = 6
    """The cell failed; its outcome is unknown."""
    NOT_RUN = 7
    """The attack does not apply to this model, or has not been run yet."""
    BORDERLINE = 8
    """The outcome hangs on floating-point rounding."""
