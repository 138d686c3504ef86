"""Models with known answers, shared by all tests: those of the public kit."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from unmask import testing


@pytest.fixture
def known():
    """The models and truths of `unmask.testing`."""
    return SimpleNamespace(**{name: getattr(testing, name) for name in testing.__all__})
