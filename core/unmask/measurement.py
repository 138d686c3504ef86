"""What a metric is given, and what it gives back.

A metric is one of two things, and its entry's ``dims`` say which. With ``sample`` among them it is a
measurement, called once for every model with a `Measured`; otherwise it is a function of the whole result,
an `xarray.Dataset`. Both return an `xarray.DataArray` (stored under the metric's name), or a `Dataset` or
mapping of several. What a measurement returns lacks the dimension `model`. An attribute ``warnings`` of a
returned Dataset, a list of sentences, is shown with the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import xarray as xr
    from torch import Tensor

    from unmask.evaluation.random import SampleRandom

__all__ = ["Measured"]


@attrs.frozen(eq=False)
class Measured:
    """One model of a run with everything that was found out about it.

    A measurement that reads `example` has an attribute ``needs_examples = True``; the final examples are then
    held for it, whether or not they are kept in the result.

    Attributes:
        name: The model's name.
        images: The clean images [sample, channel, height, width], on the model's device.
        labels: Their classes, int64 [sample].
        norm: The run's norm.
        bounds: Smallest and largest valid pixel value.
        results: The result for this model, over (attack, epsilon, sample).
        logits: Called with images [n, channel, height, width] and a stream of `n` samples; gives logits
            [n, class]. A model that answers at random answers once for each image, from that stream. These
            calls are no part of any attack and are not counted.
        random: Called with a purpose; gives one random stream per sample, for that purpose alone.
        example: Called with the positions of an attack and a radius; gives the final examples, as `images`.
    """

    name: str
    images: Tensor
    labels: Tensor
    norm: str
    bounds: tuple[float, float]
    results: xr.Dataset
    logits: Callable[[Tensor, SampleRandom], Tensor]
    random: Callable[..., SampleRandom]
    example: Callable[[int, int], Tensor]
