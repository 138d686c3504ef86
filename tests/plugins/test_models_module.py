from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from unmask.errors import MisuseError, UserError
from unmask.manifest.location import working_from
from unmask_plugins.models.module import module

SOURCE = """
from torch import nn

class Net(nn.Linear):
    pass

class Zoo:
    @staticmethod
    def small(width=3):
        return nn.Linear(width, 2)

def build(inputs=4, classes=2):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, classes), nn.Dropout())

def broken():
    raise RuntimeError("out of cheese")

def nothing():
    return "a model, honestly"

SIZE = 3
ready = nn.Linear(1, 1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_nets_for_test.py").write_text(SOURCE)
    return tmp_path


def test_a_file_beside_the_manifest_builds_the_model_in_eval_mode(folder: Path) -> None:
    with working_from(folder):
        built = module("my_nets_for_test:build", inputs=9, classes=5)
    assert built(torch.zeros(2, 1, 3, 3)).shape == (2, 5)
    assert not any(part.training for part in built.modules())


def test_classes_and_deeper_names_are_callables_too(folder: Path) -> None:
    with working_from(folder):
        assert type(module("my_nets_for_test:Net", in_features=2, out_features=3)).__name__ == "Net"
        assert module("my_nets_for_test:Zoo.small", width=6).in_features == 6


def test_a_package_with_relative_imports_is_found(tmp_path: Path) -> None:
    package = tmp_path / "package_for_test"
    package.mkdir()
    (package / "layers.py").write_text("from torch import nn\nLayer = nn.Identity\n")
    (package / "nets.py").write_text("from .layers import Layer\n\ndef build():\n    return Layer()\n")
    with working_from(tmp_path):
        assert isinstance(module("package_for_test.nets:build"), nn.Identity)


def test_installed_modules_are_found_where_no_file_has_the_name(tmp_path: Path) -> None:
    with working_from(tmp_path):
        built = module("torch.nn:Linear", in_features=3, out_features=2)
    assert isinstance(built, nn.Linear)


def test_two_folders_with_modules_of_the_same_name_do_not_mix(tmp_path: Path) -> None:
    for name, width in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        text = f"from torch import nn\n\ndef build():\n    return nn.Linear({width}, 1)\n"
        (tmp_path / name / "same_name_for_test.py").write_text(text)
    widths = []
    for name in ("one", "two", "one"):
        with working_from(tmp_path / name):
            widths.append(module("same_name_for_test:build").in_features)
    assert widths == [1, 2, 1]


def test_the_import_path_and_loaded_modules_are_left_alone(folder: Path) -> None:
    (folder / "json.py").write_text("from torch import nn\n\ndef build():\n    return nn.Identity()\n")
    import json

    before = list(sys.path)
    with working_from(folder):
        module("json:build")
    assert sys.path == before
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("factory", "error", "message"),
    [
        ("my_nets_for_test", UserError, "not of the form 'package.module:callable'"),
        ("my nets:build", UserError, "not of the form"),
        ("no_such_module_for_test:build", UserError, "there is no module 'no_such_module_for_test'"),
        ("my_nets_for_test:bulid", UserError, "has no 'bulid'. Did you mean 'build'"),
        ("my_nets_for_test:SIZE", MisuseError, "is int, not a function"),
        ("my_nets_for_test:ready", MisuseError, "is Linear, not a function"),
        ("my_nets_for_test:broken", UserError, "raised RuntimeError: out of cheese"),
        ("my_nets_for_test:nothing", MisuseError, "returned str, not a torch.nn.Module"),
    ],
)
def test_what_cannot_be_built_is_refused_in_words(
    folder: Path, factory: str, error: type[UserError], message: str
) -> None:
    with working_from(folder), pytest.raises(error, match=message) as caught:
        module(factory)
    assert caught.value.where == "factory"


def test_options_the_factory_does_not_take_are_named(folder: Path) -> None:
    with working_from(folder), pytest.raises(UserError, match="called with widht = 3"):
        module("my_nets_for_test:build", widht=3)


def test_a_module_that_cannot_be_imported_says_what_it_misses(tmp_path: Path) -> None:
    (tmp_path / "needy_for_test.py").write_text("import no_such_dependency_for_test\n")
    (tmp_path / "wrong_for_test.py").write_text("def build(:\n")
    with working_from(tmp_path):
        with pytest.raises(
            UserError, match=r"importing 'needy_for_test' failed.*no_such_dependency_for_test"
        ):
            module("needy_for_test:build")
        with pytest.raises(UserError, match="importing 'wrong_for_test' failed: SyntaxError"):
            module("wrong_for_test:build")
