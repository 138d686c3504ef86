"""From TOML to a `Manifest`; every mistake is named with its file, its key path and the way out."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from unmask.errors import MisuseError, UserError, suggestion
from unmask.manifest.models_section import check_references, read_model
from unmask.manifest.placing import placed_in
from unmask.manifest.radii import parse_radii
from unmask.manifest.spec import NORMS, PRECISIONS, PREPARATIONS, PROTOCOLS, QUANTIZERS, AttackSpec, Manifest
from unmask.manifest.tables import Table, finite, shown
from unmask.manifest.use import read_data, read_use

__all__ = ["TOP_LEVEL", "parse_manifest", "read_manifest"]

T = TypeVar("T")

TOP_LEVEL = (
    "name",
    "seed",
    "norm",
    "epsilons",
    "metrics",
    "bounds",
    "batch-size",
    "precision",
    "protocol",
    "prepare",
    "device",
    "keep-examples",
    "quantize",
    "diagnose",
    "trace",
    "max-queries",
    "timeout",
    "data",
    "models",
    "attacks",
)
"""The keys of a manifest."""

_SECTIONS = {
    "data": '[data] with use = "digits"',
    "models": '[models.backbone] with use = "small-cnn"',
    "attacks": '[attacks.pgd] with use = "pgd"',
}

_DEVICE = re.compile(r"(?:cpu|cuda|mps|xpu)(?::[0-9]{1,3})?", re.ASCII)


def read_manifest(path: Path | str) -> Manifest:
    """Read a manifest from a TOML file, or from the result file of an earlier run.

    Raises:
        UserError: The file is missing, no TOML, or says something that is not understood.
    """
    path = Path(path)
    if path.is_dir():
        raise UserError("is a folder. Name the manifest file in it.", file=str(path))
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(_missing(path), file=str(path)) from None
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot be read: {getattr(error, 'strerror', None) or error}.", file=str(path)
        ) from error
    if content.startswith((b"\x89HDF\r\n\x1a\n", b"CDF")) or path.suffix.lower() == ".nc":
        text, folder = _from_results(path)
        return parse_manifest(text, folder=folder, file=str(path))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError(
            f"is not UTF-8 text (line {line}). A manifest is a TOML file.", file=str(path)
        ) from error
    return parse_manifest(text, folder=path.absolute().parent, file=str(path))


def parse_manifest(text: str, *, folder: Path | str | None = None, file: str | None = None) -> Manifest:
    """Read a manifest from its text.

    Args:
        text: TOML.
        folder: Where relative paths start from; None: the current folder.
        file: What error messages call the source.

    Raises:
        UserError: As `read_manifest`.
    """
    base = Path.cwd() if folder is None else Path(folder).absolute()
    with placed_in(file):
        try:
            return _manifest(_toml(text), text, base, file)
        except RecursionError:
            raise UserError("its models are nested too deep.", where="models") from None


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UserError("is not valid TOML: its tables are nested too deep.") from None
    except ValueError as error:
        raise UserError(f"is not valid TOML: {error}.") from error


def _manifest(raw: dict[str, Any], text: str, folder: Path, file: str | None) -> Manifest:
    top = Table(raw, "", "a manifest")
    top.allow(TOP_LEVEL)
    for section, example in _SECTIONS.items():
        if section not in top:
            raise UserError(f"the section [{section}] is missing. Write {example}.", where=section)
    name = top.text("name", Path(file).stem if file else "run")
    if re.search(r"[\x00-\x1f\x7f/\\]", name) or name.startswith(".") or name != name.strip():
        raise UserError(
            f"{shown(name)} cannot name a folder: no slashes, control characters, leading dots or spaces "
            "at either end.",
            where="name",
        )
    if "epsilons" not in top:
        raise UserError(
            'the radii are missing. Write epsilons = ["8/255"]; there is no number without its threat model.',
            where="epsilons",
        )
    models = _named(top, "models", read_model)
    check_references(models)
    norm = top.text("norm", "linf", among=NORMS)
    return Manifest(
        name=name,
        epsilons=parse_radii(top.list("epsilons", example='["8/255"]'), "epsilons", norm),
        data=read_data(raw["data"], "data"),
        models=models,
        attacks=_named(top, "attacks", _attack),
        norm=norm,
        seed=top.whole("seed", 0, least=0),
        metrics=_metrics(top),
        bounds=_bounds(top),
        batch_size=top.whole("batch-size", None, least=1),
        precision=top.text("precision", "float32", among=PRECISIONS),
        protocol=top.text("protocol", "expected", among=PROTOCOLS),
        prepare=top.text("prepare", "auto", among=PREPARATIONS),
        device=_device(top),
        keep_examples=top.flag("keep-examples", False),
        quantize=top.text("quantize", None, among=QUANTIZERS),
        diagnose=top.flag("diagnose", False),
        trace=top.flag("trace", False),
        max_queries=top.whole("max-queries", None, least=1),
        timeout=top.number("timeout", None, above=0.0),
        text=text,
        folder=folder,
        file=file,
    )


def _named(top: Table, section: str, read: Callable[[Any, str], T]) -> dict[str, T]:
    table = Table(top.raw[section], section, _SECTIONS[section])
    if not table.raw:
        raise UserError(f"the section is empty. Write {_SECTIONS[section]}.", where=section)
    found = {}
    for name, value in table.raw.items():
        where = table.at(name)
        if not name or name != name.strip() or re.search(r"[\x00-\x1f\x7f]", name):
            raise UserError(
                "a name must not be empty, have spaces at either end, or hold control characters.",
                where=where,
            )
        if section == "attacks" and "/" in name:
            raise UserError(
                "an attack's name has no '/', which separates a suite from its stages. "
                f'Write "{name.replace("/", "-")}".',
                where=where,
            )
        found[name] = read(value, where)
    return found


def _attack(raw: Any, where: str) -> AttackSpec:
    table, use = read_use(raw, where, 'use = "pgd"')
    return AttackSpec(use, table.options(("use",)))


def _metrics(top: Table) -> tuple[str | Mapping[str, Any], ...]:
    names = top.list("metrics", [], example='["calibration"]')
    for i, name in enumerate(names):
        where = f"metrics[{i}]"
        if isinstance(name, Mapping):
            table, use = read_use(name, where, 'use = "calibration"')
            names[i] = {"use": use, **table.options(("use",))}
        elif not isinstance(name, str) or not name.strip():
            raise MisuseError(
                f'must be the name of a metric, such as "calibration", not {shown(name)}.', where=where
            )
        if names[i] in names[:i]:
            raise UserError(f"{shown(name)} is listed twice; once is enough.", where=where)
    return tuple(names)


def _bounds(top: Table) -> tuple[float, float] | None:
    if "bounds" not in top:
        return None
    values = top.list("bounds", example="[0.0, 1.0]")
    if len(values) != 2:
        raise UserError(
            f"must be the smallest and the largest pixel value, such as [0.0, 1.0], not {shown(values)}.",
            where="bounds",
        )
    low, high = (finite(value, f"bounds[{i}]") for i, value in enumerate(values))
    if not low < high:
        raise UserError(
            f"the smallest value must come first and be smaller, not {shown(values)}.", where="bounds"
        )
    return low, high


def _device(top: Table) -> str | None:
    device: str | None = top.text("device", None)
    if device is not None and not _DEVICE.fullmatch(device):
        hint = suggestion(device, ("cpu", "cuda", "cuda:0", "mps", "xpu"))
        raise UserError(f"{shown(device)} is no device. {hint}", where="device")
    return device


_LISTED = 8
"""Files that a message names; the nearest where a folder has more."""


def _missing(path: Path) -> str:
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"there is no such file, and no folder '{folder}'."
    names = sorted(file.name for file in folder.iterdir() if file.suffix in (".toml", ".nc"))
    if not names:
        return "there is no such file."
    if len(names) > _LISTED:
        names = difflib.get_close_matches(path.name, names, _LISTED, cutoff=0)
    return f"there is no such file. {suggestion(path.name, names)}"


def _from_results(path: Path) -> tuple[str, Path]:
    """The manifest inside a result file, and the folder its relative paths start from."""
    import netCDF4

    try:
        with netCDF4.Dataset(path) as results:
            attributes: Mapping[str, Any] = {name: results.getncattr(name) for name in results.ncattrs()}
    except (OSError, RuntimeError, ValueError, AttributeError) as error:
        raise UserError(f"is not a whole result file: {error}.", file=str(path)) from error
    text = attributes.get("manifest")
    if not isinstance(text, str) or not text.strip():
        raise UserError(
            "holds no manifest: its evaluation was started from Python. Write a manifest to run it again.",
            file=str(path),
        )
    # A result file may have moved; then relative paths start beside it.
    recorded = attributes.get("manifest_folder")
    if isinstance(recorded, str) and recorded and Path(recorded).is_dir():
        return text, Path(recorded)
    return text, path.absolute().parent
