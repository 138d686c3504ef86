"""What is offered of other libraries, before any of them is imported."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

import unmask
from unmask.entries import AttackEntry, Library
from unmask.errors import UserError
from unmask.manifest.checking import check_manifest
from unmask.manifest.reading import parse_manifest
from unmask.manifest.schema import manifest_schema
from unmask.markers import hookimpl
from unmask.options import describe_options
from unmask.plugins.catalog import Catalog, catalog, using
from unmask_plugins.adapters.docstrings import documented_parameters
from unmask_plugins.adapters.libraries import FOOLBOX
from unmask_plugins.adapters.listing import Listed
from unmask_plugins.adapters.offering import Offering

ABSENT = Library("absent", "no_such_library", "no-such-library", "pip install no-such-library")


class Plugin:
    @hookimpl
    def unmask_attacks(self):
        def found(library):
            return AttackEntry(
                name="pgd", summary="s", reference="r", build=lambda steps=1: None, library=library
            )

        return [found(None), found(ABSENT), found(FOOLBOX)]


def test_five_libraries_are_listed_and_none_is_imported():
    code = (
        "import sys; from unmask.plugins.catalog import catalog\n"
        "print(*[f'{l.name}={len(o)}' for l, o in catalog().of_libraries('attacks').items()])\n"
        "print([m for m in ('torch', 'foolbox', 'torchattacks', 'art', 'adv_lib', 'cleverhans')"
        " if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    offered, imported = said.stdout.splitlines()
    assert [each.split("=")[0] for each in offered.split()] == [
        "adv-lib",
        "art",
        "cleverhans",
        "foolbox",
        "torchattacks",
    ]
    assert imported == "[]"


def test_the_name_before_the_colon_is_needed_and_enough():
    known = Catalog.from_plugins({"p/x": Plugin()})
    assert known.find("attacks", "pgd").entry.library is None
    assert known.find("attacks", "absent:pgd").entry.library == ABSENT
    assert known.find("attacks", "p:pgd").entry.library is None
    assert known.spelt("attacks", known.find("attacks", "Absent:pgd")) == "absent:pgd"
    assert not known.is_ambiguous("attacks", "pgd")
    assert [p.entry.library for p in known.entries("attacks")] == [None]
    both = Catalog.from_plugins({"p/x": Plugin(), "q/x": Plugin()})
    with pytest.raises(UserError, match="write 'p/x:pgd' or 'q/x:pgd'"):
        both.find("attacks", "absent:pgd")


def test_an_absent_library_says_how_it_is_installed():
    with using(Catalog.from_plugins({"p/x": Plugin()})):
        with pytest.raises(UserError) as refusal:
            unmask.attack("absent:pgd")
        assert str(refusal.value).endswith(
            "'absent:pgd' needs absent, which is not installed: pip install no-such-library"
        )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("foolbox:LinfPDG", "Did you mean 'LinfPGD'"),
        ("foolbox:linfpgd", "Did you mean 'LinfPGD'"),
        ("fulbox:LinfPGD", "Did you mean 'foolbox:LinfPGD'"),
        ("LinfPGD", "Of other libraries: foolbox:LinfPGD"),
        ("adv_lib:fnm", "Did you mean 'fmn'"),
    ],
)
def test_misspelt_names_meet_the_nearest(name, said):
    with pytest.raises(UserError, match=said):
        unmask.attack(name)


MANIFEST = """\
norm = "{norm}"
epsilons = ["8/255"]
[data]
use = "digits"
samples = 4
[models.net]
use = "small-cnn"
[attacks.theirs]
use = "{use}"
"""


@pytest.mark.parametrize(
    ("use", "norm"),
    [
        ("foolbox:LinfPGD", "l2"),
        ("torchattacks:PGDL2", "linf"),
        ("art:DeepFool", "l1"),
        ("adv-lib:ddn", "linf"),
        ("cleverhans:projected_gradient_descent", "l1"),
    ],
)
def test_a_norm_it_is_not_made_for_is_refused_before_the_library_is_looked_for(use, norm):
    with pytest.raises(UserError, match=f"does not know the norm '{norm}'"):
        check_manifest(parse_manifest(MANIFEST.format(use=use, norm=norm)))


def test_the_schema_knows_the_names():
    text = manifest_schema()["$defs"]["attack"]["anyOf"][0]["enum"]
    assert {"foolbox:LinfPGD", "adv-lib:fmn", "art:HopSkipJump"} <= set(text)
    assert "LinfPGD" not in text


def test_an_own_attack_is_known_without_any_library():
    # Looking up what an object is registered as must not import five libraries.
    assert catalog().name_of("attacks", unmask.attack("pgd").attack) == "pgd"
    assert catalog().name_of("attacks", object()) == ""


@pytest.mark.parametrize(
    "lines",
    [
        [":param steps: How many,", "    at most.", ":param float rate: How fast.", ":return: y"],
        ["Args:", "    steps (int): How many,", "        at most.", "    rate (float): How fast."],
        ["    Arguments:", "        steps : How many,", "            at most.", "        rate : How fast."],
        [
            *("Parameters", "----------", "steps : int", "    How many,", "    at most.", "rate : float"),
            *("    How fast.", "", "Returns", "-------", "y : int", "    No."),
        ],
    ],
    ids=["sphinx", "google", "torchattacks", "numpy"],
)
def test_docstrings_of_every_style_are_read(lines):
    found = documented_parameters("\n".join(["X.", "", *lines]))
    assert {name: text for name, (_, text) in found.items()} == {
        "steps": "How many, at most.",
        "rate": "How fast.",
    }


@pytest.mark.skipif(find_spec("foolbox") is None, reason="foolbox is not installed")
def test_options_are_the_librarys_own():
    for provided in catalog().of_libraries("attacks")[FOOLBOX]:
        if "BrendelBethge" not in provided.name or find_spec("numba") is not None:
            assert all(option.help for option in describe_options(provided.builder())), provided.name
    with pytest.raises(UserError, match=r"there is no option 'stepps'\. Did you mean 'steps'"):
        unmask.attack("foolbox:LinfPGD", stepps=3)
    with pytest.raises(UserError, match="must be a whole number"):
        unmask.attack("foolbox:LinfPGD", steps="many")
    with pytest.raises(UserError, match=r"\.steps: steps must be at least 1, not -3"):
        unmask.attack("foolbox:LinfPGD", steps=-3)
    attack = unmask.attack("foolbox:LinfPGD", steps=3)
    assert attack.use == "foolbox:LinfPGD"
    assert attack.options["steps"] == 3
    assert attack.options["rel_stepsize"] == pytest.approx(0.01 / 0.3)
    assert attack.provider == f"unmask/builtin ({FOOLBOX})"
    assert attack.table()["use"] == "foolbox:LinfPGD"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": -3}, "steps must be at least 1"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"num_random_init": -1}, "num_random_init must be at least 0"),
        ({"max_halving": -1}, "at least 0"),
    ],
)
def test_a_count_of_nothing_is_refused_where_a_library_would_do_nothing(options, said):
    def theirs(model, steps: int = 5, num_random_init: int = 0, max_halving: int = 5, weight: float = 1.0):
        """Theirs."""

    offered = Offering(
        ABSENT,
        [Listed("theirs", "Theirs.", "Somebody 2020", ("linf",), "gradients", "within")],
        lambda name: theirs,
        lambda build, problem, values: problem.images,
        hidden=("model",),
    )
    with pytest.raises(ValueError, match=said):
        offered.theirs(**options)
    offered.theirs(steps=1, num_random_init=0, max_halving=0, weight=-1.0)
