from __future__ import annotations

import subprocess
import sys

from unmask.entries import LazyBuilder
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


def test_every_entry_is_text_that_is_imported_when_it_is_first_used() -> None:
    assert [entry.name for entry in ENTRIES if not isinstance(entry.build, LazyBuilder)] == []


def test_those_that_are_trained_name_their_recipe() -> None:
    assert sum(bool(getattr(entry, "recipe", None)) for entry in ENTRIES) >= 2


def test_the_kernels_are_all_that_the_framework_asks_for() -> None:
    provider = registration.unmask_kernels()
    wanted = [name for name in vars(Kernels) if not name.startswith("_")]
    assert wanted
    assert [name for name in wanted if not callable(getattr(provider, name, None))] == []
