"""Everything runs on the device it is asked to run on: `device_double.py`, in a process of its own.

PyTorch makes ready for the devices there are with the first backward pass of a process; one that is made
up later gets none.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_everything_stays_on_its_device() -> None:
    cases = Path(__file__).with_name("device_double.py")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(cases)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]
    assert "passed" in ran.stdout or "skipped" in ran.stdout
