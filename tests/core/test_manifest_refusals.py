"""What a manifest may say wrong, and what it is told."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unmask.errors import UserError
from unmask.manifest.checking import check_manifest
from unmask.manifest.reading import parse_manifest

SAMPLE = """\
name = "quickstart"
seed = 0
norm = "linf"
epsilons = ["0", "8/255", "16/255"]

[data]
use = "digits"
samples = 200

[models.backbone]
use = "small-cnn"

[models."backbone+front"]
backbone = "backbone"
front-end = { use = "dncnn" }

[models."backbone+front 3x"]
ensemble = { use = "randomized", members = ["backbone+front"], copies = 3 }

[attacks.pgd]
use = "pgd"
steps = 50
restarts = 5

[attacks.zero-order-pgd]
use = "pgd"
steps = 10
gradient = { use = "finite-difference", square = 1, group = 5 }

[attacks.bpda-pgd]
use = "pgd"
gradient = { use = "bypass" }
"""

BACKBONE = '[models.backbone]\nuse = "small-cnn"\n'
FRONT = '[models."backbone+front"]\nbackbone = "backbone"\nfront-end = { use = "dncnn" }\n'
ENSEMBLE = 'ensemble = { use = "randomized", members = ["backbone+front"], copies = 3 }'
PGD = '[attacks.pgd]\nuse = "pgd"\n'
EPSILONS = 'epsilons = ["0", "8/255", "16/255"]'
TOP = 'name = "quickstart"\n'

# What is replaced, by what, and what the message must say beside the file.
CASES: dict[str, tuple[str, str, list[str]]] = {
    "syntax": (TOP, "name = quickstart\n", ["not valid TOML", "line 1"]),
    "duplicate key": (TOP, TOP + TOP, ["not valid TOML", "line 2"]),
    "unknown key": (EPSILONS, "epsilon = [0.1]", ["epsilon", "unknown key", "Did you mean 'epsilons'?"]),
    "underscored key": (TOP, TOP + "batch_size = 3\n", ["batch_size", "Did you mean 'batch-size'?"]),
    "unknown section": ("[data]", "[date]", ["date", "Did you mean 'data'?"]),
    "no data": (
        '[data]\nuse = "digits"\nsamples = 200\n',
        "",
        ["data", "[data] is missing", 'use = "digits"'],
    ),
    "no epsilons": (EPSILONS, "", ["epsilons", "missing", "threat model"]),
    "empty epsilons": (EPSILONS, "epsilons = []", ["epsilons", "empty"]),
    "epsilons no list": (EPSILONS, 'epsilons = "8/255"', ["epsilons", "must be a list", '["8/255"]']),
    "negative epsilon": (EPSILONS, "epsilons = [0, -0.5]", ["epsilons[1]", "-0.5", "negative"]),
    "nan epsilon": (EPSILONS, "epsilons = [nan]", ["epsilons[0]", "nan", "finite"]),
    "inf epsilon": (EPSILONS, "epsilons = [inf]", ["epsilons[0]", "inf", "finite"]),
    "text epsilon": (EPSILONS, 'epsilons = ["8 of 255"]', ["epsilons[0]", "8 of 255", "8/255"]),
    "epsilon twice": (EPSILONS, 'epsilons = ["1/2", 0.5]', ["epsilons[1]", "already"]),
    "epsilon true": (EPSILONS, "epsilons = [true]", ["epsilons[0]", "must be a number"]),
    "unknown norm": ('norm = "linf"', 'norm = "l-inf"', ["norm", "l-inf", "Did you mean 'linf'?"]),
    "norm of no text": ('norm = "linf"', "norm = 2", ["norm", "must be text", "2"]),
    "text seed": ("seed = 0", 'seed = "0"', ["seed", "whole number", '"0"']),
    "negative seed": ("seed = 0", "seed = -1", ["seed", "at least 0", "-1"]),
    "huge seed": ("seed = 0", "seed = 9223372036854775808", ["seed", "at most"]),
    "true seed": ("seed = 0", "seed = true", ["seed", "whole number", "true"]),
    "name with slash": (TOP, 'name = "../evil"\n', ["name", "../evil", "slashes"]),
    "blank name": (TOP, 'name = " "\n', ["name", "blank"]),
    "zero batch": (TOP, TOP + "batch-size = 0\n", ["batch-size", "at least 1", "0"]),
    "bounds reversed": (TOP, TOP + "bounds = [1, 0]\n", ["bounds", "smaller", "[1, 0]"]),
    "three bounds": (TOP, TOP + "bounds = [0, 1, 2]\n", ["bounds", "[0.0, 1.0]"]),
    "infinite bound": (TOP, TOP + "bounds = [0, inf]\n", ["bounds[1]", "finite"]),
    "unknown precision": (TOP, TOP + 'precision = "float"\n', ["precision", "Did you mean 'float32'?"]),
    "unknown device": (TOP, TOP + 'device = "gpu"\n', ["device", '"gpu"', "Known: cpu, cuda"]),
    "keep-examples text": (TOP, TOP + 'keep-examples = "yes"\n', ["keep-examples", "true or false", '"yes"']),
    "zero queries": (TOP, TOP + "max-queries = 0\n", ["max-queries", "at least 1"]),
    "negative timeout": (TOP, TOP + "timeout = -1\n", ["timeout", "more than 0", "-1"]),
    "metrics text": (TOP, TOP + 'metrics = "calibration"\n', ["metrics", "must be a list"]),
    "metrics of no text": (TOP, TOP + "metrics = [3]\n", ["metrics[0]", "name of a metric"]),
    "unknown metric": (TOP, TOP + 'metrics = ["calibrashun"]\n', ["metrics[0]", "calibrashun"]),
    "metric twice": (TOP, TOP + 'metrics = ["a", "a"]\n', ["metrics[1]", "twice"]),
    "data without use": ('use = "digits"', "", ["data", "which component", 'use = "digits"']),
    "unknown data": ('"digits"', '"digit"', ["data.use", "digit", "Did you mean 'digits'?"]),
    "unknown data option": ("samples = 200", "sampels = 200", ["data", "sampels"]),
    "zero samples": ("samples = 200", "samples = 0", ["data.samples", "at least 1"]),
    "fractional samples": ("samples = 200", "samples = 20.5", ["data.samples", "whole number", "20.5"]),
    "wrong split": ("samples = 200", 'split = "trian"', ["data.split", "trian", "train"]),
    "model as text": (BACKBONE, '[models]\nbackbone = "small-cnn"\n', ["models.backbone", "table"]),
    "model without form": (
        BACKBONE,
        "[models.backbone]\n",
        ["models.backbone", "says no model", "front-end"],
    ),
    "model with a slip": (
        BACKBONE,
        '[models.backbone]\nuze = "small-cnn"\n',
        ["models.backbone.uze", "Did you mean 'use'?"],
    ),
    "unknown model": ('use = "small-cnn"', 'use = "smal-cnn"', ["models.backbone.use", "'small-cnn'"]),
    "unknown distribution": (
        'use = "small-cnn"',
        'use = "nobody:small-cnn"',
        ["models.backbone.use", "nobody"],
    ),
    "unknown model option": (
        BACKBONE,
        BACKBONE + "widht = 3\n",
        ["models.backbone", "widht", "Did you mean 'width'?"],
    ),
    "underscored option": (
        BACKBONE,
        BACKBONE + "image_channels = 1\n",
        ["models.backbone.image_channels", "Did you mean 'image-channels'?"],
    ),
    "option of wrong type": (
        BACKBONE,
        BACKBONE + 'width = "wide"\n',
        ["models.backbone.width", "wide", "whole"],
    ),
    "two forms": (
        BACKBONE,
        BACKBONE + 'front-end = "dncnn"\n',
        ["models.backbone", "mixes use with backbone and front-end"],
    ),
    "no backbone": ('backbone = "backbone"\n', "", ['models."backbone+front"', "'backbone'"]),
    "no front end": (
        'front-end = { use = "dncnn" }\n',
        "",
        ['models."backbone+front"', "'front-end'"],
    ),
    "underscored front end": (
        'front-end = { use = "dncnn" }',
        'front_end = { use = "dncnn" }',
        ['models."backbone+front".front_end', "Did you mean 'front-end'?"],
    ),
    "recipe in front end": (
        '{ use = "dncnn" }',
        '{ use = "dncnn", recipe = "front-end" }',
        ["front-end.recipe", "beside 'front-end'"],
    ),
    "unknown front end": ('"dncnn"', '"dncn"', ['models."backbone+front".front-end.use', "'dncnn'"]),
    "unknown reference": (
        'backbone = "backbone"',
        'backbone = "backbon"',
        ['models."backbone+front".backbone', "backbon", "Did you mean 'backbone'?"],
    ),
    "reference as number": (
        'backbone = "backbone"',
        "backbone = 3",
        ['models."backbone+front".backbone', "name of a model", "3"],
    ),
    "circle": (
        'backbone = "backbone"',
        'backbone = "backbone+front 3x"',
        ["circle", "backbone+front -> backbone+front 3x -> backbone+front"],
    ),
    "model of itself": ('backbone = "backbone"', 'backbone = "backbone+front"', ["circle", "itself"]),
    "ensemble of nothing": (
        'members = ["backbone+front"]',
        "members = []",
        ["ensemble.members", "at least one member"],
    ),
    "members no list": (
        '["backbone+front"], copies',
        '"backbone+front", copies',
        ["members", "must be a list"],
    ),
    "unknown member": (
        '["backbone+front"]',
        '["backbone+frond"]',
        ["ensemble.members[0]", "'backbone+front'"],
    ),
    "ensemble without members": ('members = ["backbone+front"], ', "", ["ensemble", "'members' is missing"]),
    "zero copies": ("copies = 3", "copies = 0", ["ensemble.copies", "at least 1"]),
    "copies outside": (ENSEMBLE, ENSEMBLE + "\ncopies = 2", ["copies", "ensemble's table"]),
    "unknown recipe of an ensemble": (
        ENSEMBLE,
        ENSEMBLE + '\nrecipe = "standart"',
        ["recipe.use", "Did you mean 'standard'?"],
    ),
    "unknown ensemble": ('"randomized"', '"randomised"', ["ensemble.use", "Did you mean 'randomized'?"]),
    "sha256 alone": (ENSEMBLE, ENSEMBLE + f'\nsha256 = "{"0" * 64}"', ["sha256", "no key 'weights'"]),
    "short sha256": (BACKBONE, BACKBONE + 'weights = "w.pt"\nsha256 = "abc"\n', ["sha256", "64 hexadecimal"]),
    "missing weights": (
        BACKBONE,
        BACKBONE + 'weights = "w.pt"\n',
        ["models.backbone.weights", "w.pt", "exist"],
    ),
    "weights as number": (BACKBONE, BACKBONE + "weights = 3\n", ["models.backbone.weights", "must be text"]),
    "weights and recipe": (
        BACKBONE,
        BACKBONE + 'weights = "w.pt"\nrecipe = "standard"\n',
        ["models.backbone.recipe", "Keep one"],
    ),
    "unknown recipe": (
        BACKBONE,
        BACKBONE + 'recipe = "standart"\n',
        ["models.backbone.recipe", "'standard'"],
    ),
    "unknown recipe option": (
        BACKBONE,
        BACKBONE + 'recipe = { use = "standard", epoch = 3 }\n',
        ["models.backbone.recipe", "epoch", "Did you mean 'epochs'?"],
    ),
    "attack with slash": (PGD, '[attacks."p/gd"]\nuse = "pgd"\n', ['attacks."p/gd"', "p-gd"]),
    "nameless attack": (PGD, '[attacks.""]\nuse = "pgd"\n', ["attacks", "empty"]),
    "attack as number": (PGD, "[attacks]\nother = 3\n" + PGD, ["attacks.other", "must be a table", "3"]),
    "unknown attack": (
        PGD,
        '[attacks.pgd]\nuse = "pdg"\n',
        ["attacks.pgd.use", "pdg", "Did you mean 'pgd'?"],
    ),
    "name that cannot be": (
        PGD,
        '[attacks.pgd]\nuse = "p g d"\n',
        ["attacks.pgd.use", "p g d", "distribution"],
    ),
    "unknown attack option": (PGD, PGD + "step = 3\n", ["attacks.pgd", "step", "Did you mean 'steps'?"]),
    "steps as text": ("steps = 50", 'steps = "many"', ["attacks.pgd.steps", "many", "whole number"]),
    "steps fractional": ("steps = 50", "steps = 1.5", ["attacks.pgd.steps", "1.5"]),
    "steps zero": ("steps = 50", "steps = 0", ["attacks.pgd", "steps"]),
    "unknown gradient": ('"bypass"', '"bypas"', ["attacks.bpda-pgd.gradient", "Did you mean 'bypass'?"]),
    "gradient option": (
        "group = 5",
        "groop = 5",
        ["attacks.zero-order-pgd.gradient", "Did you mean 'group'?"],
    ),
    "underscored gradient option": ("group = 5", "my_group = 5", ["gradient.my_group", "my-group"]),
    "attack's queries": (PGD, PGD + "max-queries = 0\n", ["attacks.pgd.max-queries", "at least 1"]),
    "targeted untargetable": (
        PGD,
        '[attacks.deepfool]\nuse = "deepfool"\ntargeted = true\ntarget = 1\n' + PGD,
        ["attacks.deepfool.target", "cannot be targeted"],
    ),
    "targeted at nothing": (PGD, PGD + "targeted = true\n", ["attacks.pgd.target", "needs a target"]),
    "norm unsupported": (
        PGD,
        '[attacks.ddn]\nuse = "ddn"\n' + PGD,
        ["attacks.ddn", "'l1'", "l2"],
    ),
    "transfer from nowhere": (
        PGD,
        '[attacks.transfer]\nuse = "transfer"\nsource = "backbones"\n' + PGD,
        ["attacks.transfer.source", "backbones", "Did you mean 'backbone'?"],
    ),
    "transfer without source": (
        PGD,
        '[attacks.transfer]\nuse = "transfer"\n' + PGD,
        ["attacks.transfer", "source"],
    ),
    "loss unknown": (PGD, PGD + 'loss = "hinge"\n', ["attacks.pgd", "hinge", "margin"]),
}


def mutated(old: str, new: str) -> str:
    assert SAMPLE.count(old) >= 1, old
    return SAMPLE.replace(old, new, 1)


@pytest.mark.parametrize("case", CASES)
def test_refused_in_words(case: str, tmp_path: Path) -> None:
    old, new, parts = CASES[case]
    text = mutated(old, new)
    if case == "norm unsupported":
        text = text.replace('norm = "linf"', 'norm = "l1"')
    with pytest.raises(UserError) as refusal:
        check_manifest(parse_manifest(text, folder=tmp_path, file="quickstart.toml"))
    message = str(refusal.value)
    assert message.startswith("quickstart.toml: ")
    for part in parts:
        assert part in message, message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("section", ["models", "attacks"])
def test_missing_and_empty_sections(section: str) -> None:
    data: dict[str, Any] = tomllib.loads(SAMPLE)
    kept = re.sub(rf"\[{section}\.[^\n]*\]\n(?:[^\[\n][^\n]*\n|\n)*", "", SAMPLE)
    assert section in data and section not in tomllib.loads(kept)
    with pytest.raises(UserError, match=rf"m.toml: {section}: the section \[{section}\] is missing. Write"):
        parse_manifest(kept, file="m.toml")
    with pytest.raises(UserError, match=f"m.toml: {section}: the section is empty. Write"):
        parse_manifest(f"{kept}\n[{section}]\n", file="m.toml")
    with pytest.raises(UserError, match=f"m.toml: {section}: must be a table"):
        parse_manifest(f"{section} = []\n{kept}", file="m.toml")


def test_bypass_where_no_model_has_a_front_end() -> None:
    text = SAMPLE.replace(FRONT, "").replace('["backbone+front"]', '["backbone"]')
    with pytest.raises(
        UserError, match=r"attacks.bpda-pgd: applies to no model of this manifest: .*front end"
    ):
        check_manifest(parse_manifest(text))


def test_bypass_is_fine_where_a_model_may_have_a_front_end() -> None:
    check_manifest(parse_manifest(SAMPLE))
    text = SAMPLE.replace(FRONT, '[models.own]\nuse = "module"\nfactory = "nets:build"\nany-option = 3\n')
    check_manifest(parse_manifest(text.replace('["backbone+front"]', '["backbone"]')))


def test_data_without_a_training_part_cannot_train() -> None:
    from unmask import DataEntry, hookimpl
    from unmask.plugins.catalog import Catalog, catalog, using

    class Plugin:
        @hookimpl
        def unmask_data(self) -> list[DataEntry]:
            return [DataEntry("test-only", "No training part.", "None.", lambda: None)]

    import unmask_plugins.registration as builtin

    with using(Catalog.from_plugins({"unmask/builtin": builtin, "other/data": Plugin()})):
        assert catalog().find("data", "test-only").distribution == "other"
        text = SAMPLE.replace('use = "digits"', 'use = "test-only"')
        with pytest.raises(UserError, match=r"models.backbone.recipe: there is nothing to train on.*data = "):
            check_manifest(parse_manifest(text))


LEAVES = st.one_of(
    st.none().map(lambda _: "nan"),
    st.integers(-3, 10**6).map(str),
    st.floats(-10, 10).map(repr),
    st.sampled_from(
        ["true", "[]", "{}", '""', '"pgd"', '"backbone"', '[["a"]]', '{ use = "pgd" }', "1979-05-27"]
    ),
    st.text("abc-_/:\\", max_size=8).map(lambda t: f"'{t}'"),
)
LINES = [i for i, line in enumerate(SAMPLE.splitlines()) if "=" in line]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(LINES), LEAVES)
def test_any_value_is_understood_or_refused_in_words(line: int, value: str) -> None:
    lines = SAMPLE.splitlines()
    lines[line] = f"{lines[line].partition('=')[0]}= {value}"
    try:
        check_manifest(parse_manifest("\n".join(lines)))
    except UserError as refusal:
        assert len(str(refusal)) > 20


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, len(SAMPLE)), st.integers(0, 12), st.text(max_size=6))
def test_any_edit_of_the_text_is_understood_or_refused_in_words(start: int, length: int, new: str) -> None:
    try:
        check_manifest(parse_manifest(SAMPLE[:start] + new + SAMPLE[start + length :]))
    except UserError as refusal:
        assert len(str(refusal)) > 20


TABLE_ENDS = {
    "top": TOP,
    "data": "samples = 200\n",
    "network": BACKBONE,
    "composite": FRONT,
    "ensemble model": ENSEMBLE + "\n",
    "attack": "restarts = 5\n",
}
INLINE = ['use = "dncnn"', 'use = "randomized"', "square = 1", 'use = "bypass"']
UNKNOWN = st.from_regex(r"[a-z]{1,6}(-[a-z]{1,6})?q", fullmatch=True)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(TABLE_ENDS)), UNKNOWN)
def test_an_unknown_key_is_never_accepted(table: str, key: str) -> None:
    anchor = TABLE_ENDS[table]
    with pytest.raises(UserError, match=f"'{key}'"):
        check_manifest(parse_manifest(mutated(anchor, f"{anchor}{key} = 1\n")))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(INLINE), UNKNOWN)
def test_an_unknown_key_of_an_inline_table_is_never_accepted(anchor: str, key: str) -> None:
    with pytest.raises(UserError, match=f"'{key}'"):
        check_manifest(parse_manifest(mutated(anchor, f"{anchor}, {key} = 1")))
