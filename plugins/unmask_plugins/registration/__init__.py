"""The built-ins, offered through the same hooks as anybody's plugin: one file a kind.

Nothing heavy is imported here: every ``build`` is text, imported when its component is first used.
"""

from __future__ import annotations

from unmask_plugins.registration.attacks import unmask_attacks
from unmask_plugins.registration.data import unmask_data
from unmask_plugins.registration.ensembles import unmask_ensembles
from unmask_plugins.registration.front_ends import unmask_front_ends
from unmask_plugins.registration.gradients import unmask_gradients
from unmask_plugins.registration.kernels import unmask_kernels
from unmask_plugins.registration.metrics import unmask_metrics
from unmask_plugins.registration.models import unmask_models
from unmask_plugins.registration.recipes import unmask_recipes

__all__ = [
    "unmask_attacks",
    "unmask_data",
    "unmask_ensembles",
    "unmask_front_ends",
    "unmask_gradients",
    "unmask_kernels",
    "unmask_metrics",
    "unmask_models",
    "unmask_recipes",
]
