from __future__ import annotations

import json
import tomllib
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.errors import UserError
from unmask.manifest.checking import check_manifest
from unmask.manifest.reading import parse_manifest
from unmask.manifest.schema import manifest_schema
from unmask.plugins.catalog import catalog

SAMPLE = """\
name = "quickstart"
seed = 0
norm = "linf"
epsilons = ["0", "8/255", 0.5]

[data]
use = "digits"
samples = 200

[models.backbone]
use = "small-cnn"
width = 8

[models."backbone+front"]
backbone = "backbone"
front-end = { use = "dncnn", depth = 9 }
recipe = { use = "front-end", epsilon = "8/255", updates = 3 }

[models."backbone+front 3x"]
ensemble = { use = "randomized", members = ["backbone+front"], copies = 3 }

[models.own]
use = "module"
factory = "nets:build"
whatever-it-takes = 3

[attacks]
square = "square"

[attacks.pgd]
use = "unmask:pgd"
steps = 50
restarts = 5
timeout = 9.5

[attacks.zero-order-pgd]
use = "pgd"
gradient = { use = "finite-difference", square = 1, group = 5 }

[attacks.bpda-pgd]
use = "pgd"
gradient = "bypass"

[attacks.transfer]
use = "transfer"
source = "backbone"
attack = { use = "pgd", steps = 3 }
"""


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = manifest_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_it_is_json() -> None:
    assert json.loads(json.dumps(manifest_schema())) == manifest_schema()


def test_the_sample_is_valid(validator: jsonschema.Draft202012Validator) -> None:
    check_manifest(parse_manifest(SAMPLE))
    assert list(validator.iter_errors(tomllib.loads(SAMPLE))) == []


def test_every_component_is_offered_with_its_options() -> None:
    text = json.dumps(manifest_schema())
    for kind in ("models", "front-ends", "ensembles", "attacks", "gradients", "data", "recipes"):
        for provided in catalog().entries(kind):
            assert json.dumps(provided.name) in text
            assert json.dumps(provided.entry.summary) in text
    attack = manifest_schema()["$defs"]["attack"]["anyOf"][1]
    pgd = next(case["then"] for case in attack["allOf"] if "pgd" in case["if"]["properties"]["use"]["enum"])
    assert pgd["properties"]["steps"]["type"] == "integer"
    assert pgd["properties"]["steps"]["default"] == 50
    assert pgd["properties"]["loss"]["enum"] == ["ce", "margin", "dlr"]
    assert pgd["properties"]["gradient"] == {
        "$ref": "#/$defs/gradient",
        "description": pgd["properties"]["gradient"]["description"],
    }


BROKEN = {
    "unknown key": ("seed = 0", "sed = 0"),
    "underscore": ("seed = 0", "batch_size = 3"),
    "seed as text": ("seed = 0", 'seed = "0"'),
    "negative seed": ("seed = 0", "seed = -1"),
    "norm": ('"linf"', '"max"'),
    "no epsilons": ('epsilons = ["0", "8/255", 0.5]', ""),
    "empty epsilons": ('["0", "8/255", 0.5]', "[]"),
    "negative epsilon": ("0.5]", "-0.5]"),
    "epsilon as words": ('"8/255"', '"eight"'),
    "name": ('"quickstart"', '"a/b"'),
    "unknown data": ('"digits"', '"digit"'),
    "data option": ("samples = 200", "sampels = 200"),
    "no samples": ("samples = 200", "samples = 0"),
    "split": ("samples = 200", 'split = "trian"'),
    "unknown model": ('"small-cnn"', '"smal-cnn"'),
    "model option": ("width = 8", "widht = 8"),
    "option's type": ("width = 8", 'width = "8"'),
    "underscored option": ("whatever-it-takes", "whatever_it_takes"),
    "required option": ('factory = "nets:build"', ""),
    "two forms": ("width = 8", 'front-end = "dncnn"'),
    "no front end": ('front-end = { use = "dncnn", depth = 9 }', ""),
    "front end's option": ("depth = 9", "deep = 9"),
    "recipe's option": ("updates = 3", "update = 3"),
    "recipe's fraction": ('epsilon = "8/255"', 'epsilon = "8:255"'),
    "members": ('members = ["backbone+front"]', "members = []"),
    "copies": ("copies = 3", "copies = 0"),
    "ensemble's option": ("copies = 3", "copys = 3"),
    "attack": ('square = "square"', 'square = "squere"'),
    "attack's option": ("restarts = 5", "restart = 5"),
    "timeout": ("timeout = 9.5", "timeout = -1"),
    "timeout as a fraction": ("timeout = 9.5", 'timeout = "8/255"'),
    "attack with slash": ("[attacks.transfer]", '[attacks."a/b"]'),
    "gradient": ('"bypass"', '"bypas"'),
    "gradient's option": ("group = 5", "groop = 5"),
    "inner attack": ('attack = { use = "pgd", steps = 3 }', 'attack = { use = "pgd", stepps = 3 }'),
    "sha256 alone": ("copies = 3 }", f'copies = 3 }}\nsha256 = "{"0" * 64}"'),
    "weights and recipe": ("width = 8", 'weights = "w.pt"\nrecipe = "standard"'),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_the_checker_refuses_the_schema_refuses(
    case: str, validator: jsonschema.Draft202012Validator
) -> None:
    old, new = BROKEN[case]
    assert SAMPLE.count(old) >= 1
    text = SAMPLE.replace(old, new, 1)
    with pytest.raises(UserError):
        check_manifest(parse_manifest(text))
    assert list(validator.iter_errors(tomllib.loads(text)))


VALUES = st.one_of(
    st.integers(-2, 60).map(str),
    st.floats(-2, 2).map(repr),
    st.sampled_from(
        ["true", "[]", '""', '"pgd"', '"backbone"', '"dncnn"', '{ use = "pgd" }', '"8/255"', '["8/255"]']
    ),
)


@settings(max_examples=120, deadline=None)
@given(line=st.sampled_from([i for i, line in enumerate(SAMPLE.splitlines()) if "=" in line]), value=VALUES)
def test_what_the_checker_accepts_the_schema_accepts(
    line: int, value: str, validator: jsonschema.Draft202012Validator
) -> None:
    lines = SAMPLE.splitlines()
    lines[line] = f"{lines[line].partition('=')[0]}= {value}"
    text = "\n".join(lines)
    raw: dict[str, Any] = {}
    try:
        check_manifest(parse_manifest(text))
        raw = tomllib.loads(text)
    except UserError:
        return
    assert list(validator.iter_errors(raw)) == []
