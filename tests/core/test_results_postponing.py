"""Ctrl-C while a result is written or read takes effect afterwards, and then it does."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest
import xarray as xr

import unmask
from unmask.results import storage
from unmask.results.postponing import interrupts_postponed


@pytest.fixture(autouse=True)
def default_handler():
    """Whatever runs the tests may have a handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_press_takes_effect_when_the_work_is_done():
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_postponed():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append("all of it")
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_the_work_is_not_lost_for_want_of_a_press():
    with pytest.raises(ZeroDivisionError), interrupts_postponed():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_three_presses_end_a_process_that_hangs():
    program = (
        "import signal\n"
        "from unmask.results.postponing import interrupts_postponed\n"
        "with interrupts_postponed():\n"
        "    for _ in range(3):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "    print('still here')\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (130, "")


def test_threads_and_ignored_interrupts_are_left_alone():
    def work() -> None:
        with interrupts_postponed():
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_postponed():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_result_is_whole_though_ctrl_c_came_in_the_middle_of_writing_it(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        real = xr.Dataset.to_netcdf

        def pressed(self, *arguments, **options):
            signal.raise_signal(signal.SIGINT)
            return real(self, *arguments, **options)

        patch.setattr(xr.Dataset, "to_netcdf", pressed)
        dataset = small_result()
        with pytest.raises(KeyboardInterrupt):
            storage.save(dataset, tmp_path / "results.nc")
    assert unmask.load(tmp_path / "results.nc").correct.identical(dataset.correct)
    assert [path.name for path in tmp_path.iterdir()] == ["results.nc"]


def small_result() -> xr.Dataset:
    import torch

    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)).eval()
    return unmask.evaluate(model, torch.rand(4, 1, 2, 2), [0, 1, 0, 1], ["fgsm"], [0.1])
