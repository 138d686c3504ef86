"""The kernels that the framework asks for through its hook ``unmask_kernels``: this module is the answer.

A plugin returns the module itself; its functions are those of `unmask.kernels.Kernels`.
"""

from __future__ import annotations

from unmask_kernels.balls import norms, project, steepest
from unmask_kernels.philox import integers, normal, signs, uniform

__all__ = ["integers", "normal", "norms", "project", "signs", "steepest", "uniform"]
