"""One attack of each library passes the conformance kit that every plugin's attack passes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import pytest

from unmask.plugins.catalog import catalog
from unmask.testing import conformance

pytestmark = pytest.mark.filterwarnings("ignore")

CHOSEN: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "foolbox": ("foolbox:LinfPGD", {"steps": 3}),
    "torchattacks": ("torchattacks:PGD", {"steps": 3}),
    "art": ("art:ProjectedGradientDescentPyTorch", {"max_iter": 3}),
    "adv_lib": ("adv-lib:fmn", {"steps": 4}),
    "cleverhans": ("cleverhans:projected_gradient_descent", {"nb_iter": 3}),
}

for _module, (_name, _options) in CHOSEN.items():
    if find_spec(_module) is not None:
        _norm = catalog().find("attacks", _name).entry.norms[0]  # type: ignore[attr-defined]
        globals().update(conformance(_name, kind="attack", options=_options, norms=[_norm]))
