"""A hash of the code behind a model or an attack, so that edited code is not mistaken for what was run."""

from __future__ import annotations

import hashlib
import inspect
import sys
import sysconfig
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

__all__ = ["code_of"]

_INSTALLED = tuple(
    str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def code_of(*things: Any) -> str:
    """SHA-256 of what these functions, classes or objects do.

    Their own byte code with constants, defaults and closures; and, for code that is not installed as a
    distribution, the text of the file it stands in, with all its helpers. Installed code is known by its
    version.
    """
    digest = hashlib.sha256()
    for thing in things:
        _add(digest, thing, set())
    return digest.hexdigest()


def _add(digest: Any, thing: Any, seen: set[int]) -> None:
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, MethodType):
        _add(digest, thing.__self__, seen)
        thing = thing.__func__
    if isinstance(thing, FunctionType):
        _add_code(digest, thing.__code__)
        _add_file(digest, thing)
        for value in (*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()):
            _add_value(digest, value, seen)
        for cell in thing.__closure__ or ():
            try:
                _add_value(digest, cell.cell_contents, seen)
            except ValueError:  # a variable that is not set yet
                continue
        return
    kind = thing if isinstance(thing, type) else type(thing)
    for base in kind.__mro__:
        if _is_installed(base):
            digest.update(f"{base.__module__}.{base.__qualname__}".encode())
            continue
        _add_file(digest, base)
        for name, value in sorted(vars(base).items()):
            function = getattr(value, "__func__", value)
            # What attrs writes for its fields holds a number that differs from process to process.
            if isinstance(function, FunctionType) and not _by_attrs(function):
                digest.update(name.encode())
                _add_code(digest, function.__code__)
    if not isinstance(thing, type):
        for name, value in sorted(getattr(thing, "__dict__", {}).items()):
            if not name.startswith("_"):
                digest.update(name.encode())
                _add_value(digest, value, seen)


def _add_value(digest: Any, value: Any, seen: set[int]) -> None:
    if isinstance(value, (FunctionType, MethodType)):
        _add(digest, value, seen)
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        digest.update(repr(value).encode())
    elif isinstance(value, (tuple, list)):
        for item in value:
            _add_value(digest, item, seen)
    else:
        digest.update(f"{type(value).__module__}.{type(value).__qualname__}".encode())


def _add_code(digest: Any, code: CodeType) -> None:
    digest.update(code.co_code)
    digest.update(repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(digest, constant)
        elif isinstance(constant, frozenset):
            digest.update(repr(sorted(map(repr, constant))).encode())
        else:
            digest.update(repr(constant).encode())


def _by_attrs(function: FunctionType) -> bool:
    return function.__code__.co_filename.startswith("<attrs generated")


def _is_installed(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    return kind.__module__ != "__main__" and (
        file is None or str(Path(file).resolve()).startswith(_INSTALLED)
    )


def _add_file(digest: Any, thing: Any) -> None:
    try:
        file = inspect.getsourcefile(thing)
    except TypeError:
        return
    if file is None or thing.__module__ == "__main__":
        # A script or a notebook changes without what it defines changing.
        return
    path = Path(file)
    if path.is_file() and not str(path.resolve()).startswith(_INSTALLED):
        digest.update(path.read_bytes())
