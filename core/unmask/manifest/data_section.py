"""The manifest's data: built, and cut down to a seeded random subset."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import attrs

from unmask.crashes import surviving
from unmask.errors import PluginError, UserError
from unmask.manifest.placing import placed_in
from unmask.manifest.resolving import Resolved, resolve
from unmask.manifest.spec import DataSpec, Manifest
from unmask.manifest.tables import below

if TYPE_CHECKING:
    from unmask.data import LabelledImages

__all__ = ["build_data", "fingerprint", "load_data", "subset", "training_data"]


def build_data(manifest: Manifest) -> LabelledImages:
    """The samples a manifest attacks, in the order of their ids.

    Raises:
        UserError: The data cannot be built, or are fewer than asked for.
    """
    with placed_in(manifest.file), surviving("the samples were read", "data", theirs=True):
        data = load_data(manifest.data, "data", manifest)
    return data if manifest.bounds is None else attrs.evolve(data, bounds=manifest.bounds)


def training_data(
    spec: DataSpec | None, where: str, manifest: Manifest, *, read: bool = True
) -> LabelledImages:
    """What a recipe trains on: its own data, else the training part of the manifest's data set.

    Args:
        spec: The recipe's own data, if it states any.
        where: The recipe's key path.
        manifest: The manifest.
        read: As for `load_data`.

    Raises:
        UserError: There are no training data.
    """
    if spec is not None:
        place = below(where, "data")
        splits = "split" not in spec.options and _resolve(spec, place, manifest).accepts("split")
        return load_data(spec, place, manifest, split="train" if splits else None, read=read)
    spec = attrs.evolve(manifest.data, samples=None)
    if not _resolve(spec, "data", manifest).accepts("split"):
        raise UserError(
            f"the data set '{spec.use}' has no training part to train on. "
            "Give the recipe data of its own: recipe = { use = ..., data = { use = ... } }, "
            "or the model weights.",
            where=where,
        )
    try:
        return load_data(spec, "data", manifest, split="train", read=read)
    except UserError as error:
        raise UserError(
            f"there is nothing to train on: {error} Or give the recipe data of its own: "
            "recipe = { use = ..., data = { use = ... } }, or the model weights.",
            where=where,
        ) from error


def load_data(
    spec: DataSpec, where: str, manifest: Manifest, *, split: str | None = None, read: bool = True
) -> LabelledImages:
    """A data set, cut down to its samples.

    Args:
        spec: Its table.
        where: The table's key path.
        manifest: Gives the folder and the seed.
        split: Overrides the option of this name.
        read: Read deferred images; otherwise only their shape is known.

    Raises:
        UserError: It cannot be built, or has fewer samples than asked for.
    """
    from unmask.data import LabelledImages
    from unmask.evaluation.random import derive_seed
    from unmask.models.initialisation import seeded

    resolved = _resolve(spec, where, manifest)
    with seeded(derive_seed("data", manifest.seed)):
        data = resolved.make(**({"split": split} if split else {}))
    if not isinstance(data, LabelledImages):
        raise PluginError(
            f"the data set '{spec.use}' of {resolved.provided.provider} built {type(data).__name__}, "
            "not LabelledImages.",
            where=where,
        )
    if len(data) == 0:
        raise UserError(f"the data set '{spec.use}' has no samples.", where=where)
    if spec.samples is not None:
        data = subset(data, spec.samples, manifest.seed, below(where, "samples"))
    return data.loaded() if read else data


def subset(data: LabelledImages, samples: int, seed: int, where: str = "samples") -> LabelledImages:
    """A random subset without replacement, in the order of the ids.

    Every id has a rank of its own that depends on the seed alone, and the lowest ranks are taken. So the
    subset does not depend on the order of the data set, and a larger one contains the smaller.

    Raises:
        UserError: The data set has fewer samples.
    """
    import torch

    if samples > len(data):
        raise UserError(
            f"{samples} samples are asked for, but the data set '{data.name}' has {len(data)}. "
            f"Write samples = {len(data)}, or leave it out to take all.",
            where=where,
        )
    ids = data.ids.tolist()
    ranked = sorted(range(len(ids)), key=lambda row: _rank(seed, ids[row]))[:samples]
    return data.select(torch.tensor(sorted(ranked, key=ids.__getitem__), dtype=torch.int64))


def fingerprint(data: LabelledImages) -> str:
    """The sha256 of images and labels, in their order."""
    from unmask.weights import sha256_of_state

    return sha256_of_state({"images": data.images, "labels": data.labels})


def _rank(seed: int, identity: int) -> bytes:
    return hashlib.blake2b(f"samples\x1f{seed}\x1f{identity}".encode(), digest_size=16).digest()


def _resolve(spec: DataSpec, where: str, manifest: Manifest) -> Resolved:
    return resolve("data", spec.use, spec.options, where, manifest.folder)
