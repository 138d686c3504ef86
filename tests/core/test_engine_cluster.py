"""Workers that die while they start, and what they hear."""

from __future__ import annotations

import signal

import pytest

from unmask.engines.choice import EngineChoice
from unmask.engines.cluster import _started, client_of
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


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals cannot be blocked here")
def test_workers_do_not_hear_ctrl_c():
    """A terminal tells all its processes; only the one that has the workers knows what is meant."""
    pytest.importorskip("distributed")
    with client_of(EngineChoice.checked(None, 1, None)) as client:
        heard = client.run(lambda: signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, []))
        assert list(heard.values()) == [False]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
