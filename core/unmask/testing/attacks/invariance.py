"""The outcome of a sample is its own: whatever the batch, the order, the company and what ran before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from unmask.testing.attacks.setting import AttackSubject, radius
from unmask.testing.known import small_net
from unmask.testing.laws import require

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["CHECKS"]

OUTCOME = (
    "correct",
    "prediction",
    "confidence",
    "margin",
    "distance",
    "forwards",
    "backwards",
    "status",
    "gradient_zero",
    "adversarial",
)

_REMEDY = (
    "Draw only from the streams you are given (task.random, or `random` of a plain call), never from "
    "torch's or "
    "NumPy's own generators; keep nothing on the attack itself; and let no row's step depend on another row "
    "(no mean, sum or maximum over the batch)."
)


def _problem() -> tuple[nn.Module, Tensor, Tensor]:
    model = small_net(2)
    images = torch.rand(8, 2, 5, 4, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        labels = model(images).argmax(1)
    labels[4] = (labels[4] + 1) % 4
    return model, images, labels


def _whole(subject: AttackSubject) -> xr.Dataset:
    return subject.once("whole", lambda: subject.evaluated(*_problem(), _epsilons(subject)))


def _epsilons(subject: AttackSubject) -> list[float]:
    return [radius(subject.norm, 40) / 2]


def _differs(one: xr.Dataset, other: xr.Dataset) -> str:
    """The first part of the outcome that differs, in words; "" where none does."""
    other = other.sel(sample=one["sample"])
    for variable in OUTCOME:
        a, b = one[variable].values, other[variable].values
        same = (a == b) | (np.isnan(a.astype(float)) & np.isnan(b.astype(float)))
        if not same.all():
            axes = tuple(i for i, dim in enumerate(one[variable].dims) if dim != "sample")
            return f"'{variable}' of {int((~same).any(axes).sum())} of {one.sizes['sample']} samples differs"
    return ""


def gives_the_same_in_batches_of_any_size(subject: AttackSubject) -> None:
    """The outcome is the same for batches of one, of seven (and then one), and of all samples at once."""
    whole = _whole(subject)
    for size in (1, 7):
        found = _differs(whole, subject.evaluated(*_problem(), _epsilons(subject), batch_size=size))
        require(not found, f"in batches of {size} {found} from that of all 8 at once", _REMEDY)


def gives_the_same_in_any_order_and_company(subject: AttackSubject) -> None:
    """The outcome of a sample depends neither on its place among the others nor on who they are."""
    model, images, labels = _problem()
    order = torch.tensor([6, 1, 7, 3, 0, 2, 5, 4])
    shuffled = subject.evaluated(model, images[order], labels[order], _epsilons(subject), sample_ids=order)
    found = _differs(_whole(subject), shuffled)
    require(not found, f"in another order {found}", _REMEDY)
    some = order[:3]
    part = subject.evaluated(model, images[some], labels[some], _epsilons(subject), sample_ids=some)
    found = _differs(_whole(subject).sel(sample=some.numpy()), part)
    require(not found, f"with three of the eight samples alone {found}", _REMEDY)


def gives_the_same_again(subject: AttackSubject) -> None:
    """The same attack object gives the same again: it learns nothing from one run for the next."""
    attack = subject.configured()
    first, second = (subject.evaluated(*_problem(), _epsilons(subject), attack=attack) for _ in range(2))
    found = _differs(_whole(subject), first)
    require(not found, f"in a second run with the same seed {found}", _REMEDY)
    found = _differs(first, second)
    require(
        not found,
        f"when the same attack object is used again {found}",
        "Keep nothing on the attack: make it a frozen attrs class, and what changes a part of the state.",
    )


CHECKS = (
    gives_the_same_in_batches_of_any_size,
    gives_the_same_in_any_order_and_company,
    gives_the_same_again,
)
