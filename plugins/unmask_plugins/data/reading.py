"""Named arrays out of the file formats people keep them in."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.errors import MisuseError, UserError

__all__ = ["read_arrays"]

WANTED = ("images", "labels", "ids", "index")
FORMS = "Known: .npz, .nc (netCDF), .safetensors, or images.npy (or its folder) with labels.npy beside it."


def read_arrays(file: Path, where: str) -> dict[str, Tensor]:
    """Those of the arrays ``images``, ``labels``, ``ids`` and ``index`` that a file holds.

    Pickled objects are never loaded.

    Args:
        file: An ``.npz``, netCDF or safetensors file, ``images.npy`` with the others beside it, or their
            folder.
        where: The option that named it, for messages.

    Raises:
        UserError: There is no such file, its format is unknown, or it is damaged.
        MisuseError: An array holds something else than numbers.
    """
    if not file.exists():
        raise UserError(f"there is no file {file}.", where=where)
    suffix = file.suffix.lower()
    try:
        if file.is_dir():
            found = _folder(file)
        elif suffix == ".npy":
            if file.stem != "images":
                raise UserError(
                    f"{file} holds one array, and the labels are wanted too: call it images.npy, with "
                    "labels.npy beside it, or put both into one .npz.",
                    where=where,
                )
            found = _folder(file.parent)
        elif suffix == ".npz":
            found = _npz(file)
        elif suffix in (".nc", ".nc4", ".netcdf"):
            found = _netcdf(file)
        elif suffix == ".safetensors":
            return _safetensors(file)
        else:
            raise UserError(f"{file} has an unknown format. {FORMS}", where=where)
        return {name: _tensor(array, name, where, str(file)) for name, array in found.items()}
    except UserError:
        raise
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile) as error:
        raise UserError(f"{file} cannot be read: {error}", where=where) from error


def _folder(folder: Path) -> dict[str, NDArray[Any]]:
    files = {name: folder / f"{name}.npy" for name in WANTED}
    return {name: np.load(file, allow_pickle=False) for name, file in files.items() if file.is_file()}


def _npz(file: Path) -> dict[str, NDArray[Any]]:
    with np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in WANTED if name in archive.files}


def _netcdf(file: Path) -> dict[str, NDArray[Any]]:
    import xarray as xr

    # Undecoded, a fill value cannot turn whole numbers into floats.
    with xr.open_dataset(file, decode_cf=False) as dataset:
        return {name: dataset[name].values for name in WANTED if name in dataset.variables}


def _safetensors(file: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as archive:
            return {name: archive.get_tensor(name) for name in WANTED if name in archive.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def _tensor(array: NDArray[Any], name: str, where: str, file: str) -> Tensor:
    if array.dtype.kind not in "buif":
        raise MisuseError(f"the array '{name}' holds {array.dtype}, not numbers.", where=where, file=file)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    if native.dtype.kind == "u" and native.dtype.itemsize > 1:
        # torch hardly computes with wide unsigned integers.
        native = native.astype(np.int64)
    if native.dtype == np.longdouble and native.dtype.itemsize > 8:
        native = native.astype(np.float64)
    return torch.from_numpy(np.ascontiguousarray(native))
