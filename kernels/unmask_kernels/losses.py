"""What an attack climbs: one number per sample from logits [n, class] and classes int64 [n].

All are positive-going: the larger, the nearer to (untargeted) a wrong class or (targeted) the target. They
depend on differences of logits only, so a common shift changes nothing but rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask_kernels.compiling import kernel

__all__ = ["cross_entropy", "dlr", "margin", "targeted_cross_entropy", "targeted_dlr", "targeted_margin"]


def _own(logits: Tensor, classes: Tensor) -> Tensor:
    return logits.gather(1, classes.unsqueeze(1)).squeeze(1)


def _largest_other(logits: Tensor, classes: Tensor) -> Tensor:
    here = torch.arange(logits.shape[1], device=logits.device) == classes.unsqueeze(1)
    return logits.masked_fill(here, float("-inf")).amax(1)


@kernel
def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return -_own(torch.log_softmax(logits, dim=1), labels)


@kernel
def _margin(logits: Tensor, labels: Tensor) -> Tensor:
    return _largest_other(logits, labels) - _own(logits, labels)


@kernel
def _dlr(logits: Tensor, labels: Tensor) -> Tensor:
    top = logits.topk(3, dim=1)[0]
    return (_largest_other(logits, labels) - _own(logits, labels)) / (top[:, 0] - top[:, 2] + 1e-12)


@kernel
def _targeted_dlr(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    top = logits.topk(min(4, logits.shape[1]), dim=1)[0]
    spread = top[:, 0] - 0.5 * (top[:, 2] + top[:, -1])
    return (_own(logits, targets) - _own(logits, labels)) / (spread + 1e-12)


def _classes(logits: Tensor, *, least: int) -> int:
    if logits.dim() != 2 or logits.shape[1] < least:
        raise ValueError(f"logits must be [n, {least} or more classes], not {list(logits.shape)}.")
    return logits.shape[1]


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the logarithm of the label's softmax probability, [n]."""
    _classes(logits, least=1)
    return _cross_entropy(logits, labels)


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """The largest other logit less the label's, [n]; positive where the prediction is wrong.

    Carlini and Wagner (2017), section V-A, f6 without the floor. Where other logits tie, the gradient is
    shared among them.

    Raises:
        ValueError: Fewer than two classes.
    """
    _classes(logits, least=2)
    return _margin(logits, labels)


def dlr(logits: Tensor, labels: Tensor) -> Tensor:
    """Difference of logits ratio, [n] (Croce and Hein 2020, "Reliable evaluation", equation 6).

    The margin over the gap between the largest and the third largest logit: invariant to shift and to
    scale. The gap is undefined with two classes, and no invariant of two logits has a gradient; there the
    loss is the margin.

    Raises:
        ValueError: Fewer than two classes.
    """
    return _dlr(logits, labels) if _classes(logits, least=2) >= 3 else _margin(logits, labels)


def targeted_cross_entropy(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """The logarithm of the target's softmax probability, [n].

    Independent of `labels`: the three targeted losses are called alike.
    """
    _classes(logits, least=1)
    return -_cross_entropy(logits, targets)


def targeted_margin(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """The target's logit less the largest other, [n]; positive where the prediction is the target.

    Independent of `labels`: the three targeted losses are called alike.

    Raises:
        ValueError: Fewer than two classes.
    """
    _classes(logits, least=2)
    return -_margin(logits, targets)


def targeted_dlr(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """Targeted difference of logits ratio, [n] (Croce and Hein 2020, equation 7).

    The target's logit less the label's, over the gap between the largest logit and the mean of the third and
    fourth. With three classes the gap is that to the third; with two it is left out.

    Raises:
        ValueError: Fewer than two classes.
    """
    if _classes(logits, least=2) == 2:
        return _margin(logits, labels)
    return _targeted_dlr(logits, labels, targets)
