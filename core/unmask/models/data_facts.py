"""What models are told of the data, and what recipes train on; every data set is built once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import attrs

from unmask.data import LabelledImages
from unmask.errors import UserError
from unmask.manifest.data_section import fingerprint, load_data, training_data
from unmask.manifest.resolving import Resolved, resolve
from unmask.manifest.spec import DataSpec, Manifest

__all__ = ["SUPPLIED", "DataFacts"]

SUPPLIED = ("image_channels", "image_size", "classes")
"""Parameters of a builder that are taken from the data where the manifest gives none."""


class DataFacts:
    """The manifest's data as models and recipes need to know them.

    Args:
        manifest: The manifest.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._training: dict[str, tuple[LabelledImages, str]] = {}

    def supplied_to(self, component: Resolved) -> dict[str, Any]:
        """What this builder wants to know of the data and the manifest does not say."""
        wanted = [name for name in SUPPLIED if component.accepts(name) and name not in component.values]
        if component.values.get("pretrained"):
            # Its classes are those it was trained on, of which the samples may show only some.
            wanted = [name for name in wanted if name != "classes"]
        return {name: self._facts[name] for name in wanted}

    def to_train_on(self, spec: DataSpec | None, where: str) -> tuple[LabelledImages, str]:
        """Training data and their sha256; arguments as for `training_data`."""
        key = repr(spec)
        if key not in self._training:
            data = training_data(spec, where, self._manifest)
            self._training[key] = data, fingerprint(data)
        return self._training[key]

    @cached_property
    def _facts(self) -> Mapping[str, Any]:
        spec = attrs.evolve(self._manifest.data, samples=None)
        data = load_data(spec, "data", self._manifest, read=False)
        labels = [data.labels]
        if resolve("data", spec.use, spec.options, "data", self._manifest.folder).accepts("split"):
            with suppress(UserError):  # it may lack its training part; then these labels are all there is
                labels.append(training_data(None, "data", self._manifest, read=False).labels)
        if data.images.ndim != 4 or any(part.ndim != 1 or part.is_floating_point() for part in labels):
            raise UserError(
                f"images are [sample, channel, height, width] and labels class indices [sample], not "
                f"{tuple(data.images.shape)} and {data.labels.dtype} {tuple(data.labels.shape)}.",
                where="data",
            )
        channels, height, width = data.images.shape[1:]
        return {
            "image_channels": channels,
            "image_size": height if height == width else (height, width),
            "classes": max(int(part.max()) for part in labels) + 1,
        }
