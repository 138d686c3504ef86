"""The pages of the Python API: everything public, taken from the modules' own lists of names."""

from __future__ import annotations

import importlib
import inspect
from importlib.util import find_spec

__all__ = ["MODULES", "python_pages"]

MODULES = {
    "unmask.results.accessor": "The measures of a result: `ds.unmask`.",
    "unmask.verdict": "What a verdict consists of.",
    "unmask.plotting": "Figures: functions that take a result and return matplotlib Axes.",
    "unmask.statistics": "Intervals and tests.",
    "unmask.errors": "What is raised.",
    "unmask.components": "Building every kind of component by its registered name.",
    "unmask.data": "What data plugins give.",
    "unmask.training": "What training recipes are given and must do.",
    "unmask.evaluation.target": "The door: what attacks see of a model.",
    "unmask.evaluation.task": "What iterative attacks and gradient sources are given.",
    "unmask.evaluation.random": "Random numbers, a stream for every sample.",
    "unmask.evaluation.progress": "What an evaluation tells as it goes.",
    "unmask.testing": "The conformance kit for authors of plugins.",
    "unmask.compat": "Drop-in replacements for the interfaces of other libraries.",
}
"""Public modules besides `unmask` itself, in the order of the pages."""


def python_pages() -> dict[str, str]:
    """One page for `unmask`, one for each other module."""
    described: dict[int, str] = {}
    pages = {"python-unmask": _page("unmask", "What most programs need; imported on first use.", described)}
    for name, what in MODULES.items():
        if find_spec(name) is not None:
            page = f"python-{name.removeprefix('unmask.').replace('.', '-')}"
            pages[page] = _page(name, what, described)
    return pages


def _page(name: str, what: str, described: dict[int, str]) -> str:
    """The page of one module; what was described before is only named."""
    module = importlib.import_module(name)
    parts = [f"# {name}\n", f"{what}\n"]
    elsewhere = []
    names = getattr(module, "__all__", None)
    if names is None:
        raise ValueError(f"{name} has no list of public names")
    for public in names:
        found = getattr(module, public)
        if inspect.ismodule(found) or public.startswith("__"):
            continue
        path = f"{name}.{public}"
        if described.setdefault(id(found), path) != path:
            elsewhere.append(f"`{public}` is `{described[id(found)]}`")
            continue
        if inspect.isclass(found):
            directive = f".. autoclass:: {path}\n   :members:"
        elif callable(found):
            directive = f".. autofunction:: {path}"
        else:
            directive = f".. autodata:: {path}\n   :no-value:"
        parts.append(f"```{{eval-rst}}\n{directive}\n```\n")
    if elsewhere:
        parts.append("; ".join(elsewhere) + ".\n")
    return "\n".join(parts)
