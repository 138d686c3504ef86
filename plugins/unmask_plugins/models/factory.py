"""Calling a function of the user's own, named by where it is written."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from unmask.errors import MisuseError, UserError, in_words, suggestion
from unmask.manifest.location import current_folder

__all__ = ["made_by"]


def made_by(
    factory: str, options: Mapping[str, Any], where_it_asks: Mapping[str, Any] | None = None
) -> tuple[Any, dict[str, Any]]:
    """What a function returns that is named by ``"package.module:callable"``.

    It is looked for beside the manifest first (``nets.py``, or ``nets/small.py`` for ``nets.small``), then
    among what is installed.

    Args:
        factory: Its name; the callable may lie deeper, as in ``"nets:Zoo.small"``.
        options: Passed on to it.
        where_it_asks: Passed on as well, those that it has a parameter for and that are not None.

    Returns:
        What it returned, and those of `where_it_asks` that it has no parameter for.

    Raises:
        UserError: There is no such module or attribute, its import or the call raises.
        MisuseError: The attribute is not callable.
    """
    name, _, attribute = factory.partition(":") if isinstance(factory, str) else ("", "", "")
    if not attribute or not all(part.isidentifier() for part in [*name.split("."), *attribute.split(".")]):
        raise UserError(f"{factory!r} is not of the form 'package.module:callable'.", where="factory")
    base = current_folder() or Path.cwd()
    passed, left = dict(options), dict(where_it_asks or {})
    with _importable(base, name) if _source(base, name) else nullcontext():
        build = _attribute(_import(name, base), attribute, factory)
        for key in _named_parameters(build) & left.keys():
            value = left.pop(key)
            if value is not None:
                passed[key] = value
        try:
            return build(**passed), left
        except Exception as error:
            raise UserError(
                f"'{factory}' raised {in_words(error)}. It was called with {_listing(passed)}.",
                where="factory",
            ) from error


def _named_parameters(build: Callable[..., Any]) -> set[str]:
    try:
        parameters = inspect.signature(build).parameters.values()
    except ValueError:  # built into Python and silent about what it takes
        return set()
    return {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def _source(base: Path, name: str) -> Path | None:
    """The file below `base` that defines the module, if there is one."""
    stem = base.joinpath(*name.split("."))
    for candidate in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@contextmanager
def _importable(base: Path, name: str) -> Iterator[None]:
    """Let `base` come first for imports, and let no module of that name from elsewhere stand in the way."""
    top = name.partition(".")[0]

    def loaded() -> dict[str, ModuleType]:
        return {key: value for key, value in sys.modules.items() if key == top or key.startswith(f"{top}.")}

    elsewhere = loaded()
    for key in elsewhere:
        del sys.modules[key]
    sys.path.insert(0, str(base))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(base))
        if elsewhere:
            for key in loaded():
                del sys.modules[key]
            sys.modules.update(elsewhere)


def _import(name: str, base: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(
                f"there is no module '{name}': neither below {base} nor among what is installed. Put "
                f"{name.replace('.', '/')}.py there, or install the package.",
                where="factory",
            ) from error
        raise UserError(f"importing '{name}' failed: {error}.", where="factory") from error
    except Exception as error:
        raise UserError(f"importing '{name}' failed: {in_words(error)}.", where="factory") from error


def _attribute(found: Any, attribute: str, factory: str) -> Any:
    for part in attribute.split("."):
        if not hasattr(found, part):
            owner = getattr(found, "__file__", None) or getattr(found, "__name__", repr(found))
            offered = [
                key for key, value in vars(found).items() if callable(value) and not key.startswith("_")
            ]
            raise UserError(f"{owner} has no '{part}'. {suggestion(part, offered)}", where="factory")
        found = getattr(found, part)
    if isinstance(found, nn.Module) or not callable(found):
        raise MisuseError(
            f"'{factory}' is {type(found).__name__}, not a function that builds a model; name a function "
            "or a class.",
            where="factory",
        )
    return found


def _listing(options: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {value!r}" for key, value in options.items()) or "no options"
