from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from unmask.entries import Entry, LazyBuilder
from unmask.kernels import Kernels
from unmask_plugins import registration

HOOKS = [name for name in registration.__all__ if name != "unmask_kernels"]
ENTRIES = [entry for hook in HOOKS for entry in getattr(registration, hook)() if entry.library is None]
"""Those of other libraries have tests of their own, which need the libraries."""


def test_listing_the_built_ins_imports_nothing_heavy() -> None:
    program = (
        "import sys; from unmask_plugins import registration as r; "
        "[getattr(r, hook)() for hook in r.__all__ if hook != 'unmask_kernels']; "
        "print([name for name in ('torch', 'xarray', 'sklearn', 'unmask_kernels') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_entry_names_something_that_can_be_built(entry: Entry) -> None:
    assert isinstance(entry.build, LazyBuilder)
    build = entry.build.resolve()
    inspect.signature(build)
    assert inspect.getdoc(build)
    assert entry.summary.endswith(".")
    assert entry.reference


def test_recipes_named_by_entries_are_registered_and_take_those_options() -> None:
    recipes = {entry.name: entry for entry in registration.unmask_recipes()}
    named = [entry.recipe for entry in ENTRIES if getattr(entry, "recipe", None)]
    assert len(named) >= 2
    for table in named:
        options = {key: value for key, value in table.items() if key != "use"}
        assert callable(recipes[table["use"]].build(**options))


def test_the_kernels_are_all_that_the_framework_asks_for() -> None:
    provider = registration.unmask_kernels()
    wanted = [name for name in vars(Kernels) if not name.startswith("_")]
    assert wanted
    assert [name for name in wanted if not callable(getattr(provider, name, None))] == []
