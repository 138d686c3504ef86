"""Models with known answers, shared by all tests: those of the public kit."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from unmask import testing

# A project of its own, which is installed and tested by itself.
collect_ignore = ["example_plugin"]


@pytest.fixture
def known():
    """The models and truths of `unmask.testing`."""
    return SimpleNamespace(**{name: getattr(testing, name) for name in testing.__all__})
