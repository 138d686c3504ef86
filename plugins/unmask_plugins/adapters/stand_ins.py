"""Importing a library though a package is missing that it hardly uses."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["file_of_package", "standing_in"]


@contextmanager
def standing_in(name: str, **members: Any) -> Iterator[None]:
    """Within this block a module of that name can be imported, with these members where it is not installed.

    Args:
        name: The module.
        members: What the library takes from it.
    """
    try:
        there = name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        there = False
    if there:
        yield
        return
    module = ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]


def file_of_package(module: str, name: str) -> str:
    """The path of a file that lies beside a module: what ``pkg_resources.resource_filename`` tells."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"there is no module '{module}'", name=module)
    return str(Path(spec.origin).parent / name)
