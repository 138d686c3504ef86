"""Workers that die while they start."""

from __future__ import annotations

import pytest

from unmask.engines.cluster import _started
from unmask.errors import UserError


@pytest.mark.parametrize("error", [RuntimeError("Nanny failed to start"), OSError("no process")])
def test_a_death_at_the_start_is_tried_once_more(error: Exception) -> None:
    tries = []

    def start() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise error
        return "workers"

    assert _started(start) == "workers"


def test_workers_that_never_start_are_an_error_in_words() -> None:
    tries = []

    def start() -> str:
        tries.append(1)
        raise RuntimeError("Nanny failed to start")

    with pytest.raises(
        UserError, match=r"workers: no workers can be started: Nanny failed to start.*__main__"
    ):
        _started(start)
    assert len(tries) == 2
