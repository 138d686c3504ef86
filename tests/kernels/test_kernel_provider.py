"""The provider is what the framework's protocol asks for."""

from __future__ import annotations

import inspect

from unmask.kernels import Kernels
from unmask_kernels import provider


def test_every_function_of_the_protocol_is_there_with_its_arguments() -> None:
    asked = {
        name: member
        for name, member in vars(Kernels).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }
    assert set(asked) == set(provider.__all__)
    for name, member in asked.items():
        expected = [argument for argument in inspect.signature(member).parameters if argument != "self"]
        assert list(inspect.signature(getattr(provider, name)).parameters) == expected
