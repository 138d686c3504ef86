"""One result, one netCDF-4 file: written whole or not at all, read back as it was."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from unmask.dimensions import SCHEMA_VERSION
from unmask.errors import UserError
from unmask.results.atomic import replacing
from unmask.results.layout import text_array
from unmask.results.postponing import interrupts_postponed

__all__ = ["load", "opened", "save"]

_JSON_NAMES = "json_attributes"
"""Attribute that names the attributes `save` had to turn into JSON text, so that `load` turns them back."""

_NEEDED = ("clean_correct", "correct", "screening", "status")


def save(dataset: xr.Dataset, path: str | os.PathLike[str]) -> Path:
    """Writes the result to `path` and returns it.

    Numbers are compressed and carry checksums; text has variable length, so that none is ever cut; None,
    booleans and nested values among the attributes become JSON text. The Dataset itself is unchanged.

    Raises:
        UserError: The place cannot be written to.
    """
    path = Path(path)
    plain = _with_attributes(_with_whole_text(dataset), _packed)
    encoding = {
        str(name): {"zlib": True, "complevel": 1, "shuffle": True, "fletcher32": True}
        for name, variable in plain.variables.items()
        if variable.dtype.kind in "fiu" and variable.ndim
    }
    for name, variable in plain.variables.items():
        if variable.dtype.kind == "f":
            encoding.setdefault(str(name), {})["_FillValue"] = None  # type: ignore[assignment]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise UserError("is a folder; name a file to write the result to.", file=str(path))
        with interrupts_postponed(), replacing(path) as temporary:
            plain.to_netcdf(temporary, engine="netcdf4", format="NETCDF4", encoding=encoding)
    except OSError as error:
        raise UserError(
            f"the result cannot be written here: {error}. Choose another place.", file=str(path)
        ) from error
    except RuntimeError as error:
        # The netCDF library does not say what stopped it; a full disk is what it cannot help.
        free = shutil.disk_usage(path.parent).free / 2**20
        raise UserError(
            f"the result cannot be written here: {error}; {free:.1f} MiB of space are left. Make room and "
            "run again, or choose another place.",
            file=str(path),
        ) from error
    return path


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[xr.Dataset]:
    """A result whose variables are read when they are first used; the accessor ``.unmask`` is there.

    For whoever looks at a part of a large result. Use it inside the ``with`` alone: the file is closed after.

    Raises:
        UserError: As `load`; damage inside a variable shows when that variable is read.
    """
    import unmask.results.accessor  # noqa: F401 - registers the accessor

    path = Path(path)
    if path.is_dir():
        inside = path / "results.nc"
        hint = f"The result in it is {inside}." if inside.is_file() else "It holds no results.nc."
        raise UserError(f"is a folder, not a result file. {hint}", file=str(path))
    if not path.exists():
        raise UserError(
            "there is no such file. `unmask run` writes results.nc into its run folder.", file=str(path)
        )
    try:
        dataset = xr.open_dataset(path, engine="netcdf4")
    except MemoryError:
        raise
    except Exception as error:  # on a damaged file the libraries raise almost anything
        raise _unreadable(path, error) from error
    with dataset:
        try:
            plain = _with_attributes(_with_whole_text(dataset), _unpacked)
        except MemoryError:
            raise
        except (RuntimeError, OSError, UnicodeError) as error:
            raise _unreadable(path, error) from error
        except (ValueError, TypeError) as error:
            raise UserError(
                f"cannot be read as a result: its attributes are damaged ({error}). Run the manifest again "
                "to make it anew.",
                file=str(path),
            ) from error
        _check_schema(plain, path)
        try:
            yield plain
        except RuntimeError as error:
            if not str(error).startswith("NetCDF:"):
                raise
            raise _unreadable(path, error) from error


def load(path: str | os.PathLike[str]) -> xr.Dataset:
    """Reads a whole result into memory; the accessor ``.unmask`` is there afterwards.

    Raises:
        UserError: No such file, not netCDF, truncated or damaged, not written by Unmask, or of another
            schema version.
    """
    with interrupts_postponed(), opened(path) as dataset:
        try:
            dataset.load()
        except MemoryError:
            raise
        except Exception as error:
            raise _unreadable(Path(path), error) from error
    dataset.encoding.clear()
    for variable in dataset.variables.values():
        variable.encoding.clear()
    return dataset


def _unreadable(path: Path, error: Exception) -> UserError:
    return UserError(
        f"cannot be read as a result (netCDF-4): {error}. The file is damaged, cut short or of another "
        "kind; run the manifest again to make it anew.",
        file=str(path),
    )


def _check_schema(dataset: xr.Dataset, path: Path) -> None:
    version = dataset.attrs.get("schema_version")
    if version is None or any(name not in dataset for name in _NEEDED):
        raise UserError("is netCDF, but not a result of Unmask.", file=str(path))
    if version != SCHEMA_VERSION:
        raise UserError(
            f"has layout version {version}; this Unmask reads version {SCHEMA_VERSION}. Read it with Unmask "
            f"{dataset.attrs.get('unmask_version', 'of that time')}, or run its manifest again.",
            file=str(path),
        )


def _with_whole_text(dataset: xr.Dataset) -> xr.Dataset:
    changed = {
        name: (variable.dims, text_array(variable.values), variable.attrs)
        for name, variable in dataset.variables.items()
        if variable.dtype.kind in "UTO"
    }
    return dataset.assign_coords({k: v for k, v in changed.items() if k in dataset.coords}).assign(
        {k: v for k, v in changed.items() if k not in dataset.coords}
    )


def _with_attributes(dataset: xr.Dataset, change: Any) -> xr.Dataset:
    dataset = dataset.copy()
    dataset.attrs = change(dataset.attrs)
    for variable in dataset.variables.values():
        variable.attrs = change(variable.attrs)
    return dataset


def _packed(attributes: Mapping[str, Any]) -> dict[str, Any]:
    packed, turned = {}, []
    for name, value in attributes.items():
        if _fits_netcdf(value):
            packed[name] = value
        else:
            packed[name] = json.dumps(value, default=_plain)
            turned.append(name)
    if turned:
        packed[_JSON_NAMES] = json.dumps(turned)
    return packed


def _unpacked(attributes: Mapping[str, Any]) -> dict[str, Any]:
    turned = json.loads(attributes.get(_JSON_NAMES, "[]"))
    return {
        name: json.loads(value)
        if name in turned
        else value.item()
        if isinstance(value, np.generic)
        else value
        for name, value in attributes.items()
        if name != _JSON_NAMES
    }


def _fits_netcdf(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiu" and value.ndim == 1 and value.size > 1
    return isinstance(value, str | float | np.floating | np.integer)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return str(value)
