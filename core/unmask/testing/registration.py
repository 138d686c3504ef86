"""What every component owes to the reader of a listing, of whatever kind it is."""

from __future__ import annotations

import inspect

from unmask.errors import PluginError
from unmask.option_types import Anything
from unmask.testing.laws import LawBroken, require
from unmask.testing.subject import Subject, name_of

__all__ = ["CHECKS", "documents_every_option", "is_registered_and_described", "names_a_recipe_that_exists"]


def is_registered_and_described(subject: Subject) -> None:
    """A component is found by its name, can be imported, and says what it is and where it comes from."""
    entry = subject.entry
    name_of(subject.kind, subject.provided)
    try:
        build = subject.provided.builder()
    except PluginError as error:
        raise LawBroken(
            str(error), "Mend the entry's `build`, text of the form 'package.module:attribute'."
        ) from error
    try:
        inspect.signature(build)
    except ValueError as error:
        raise LawBroken(
            f"its builder does not tell its signature ({error}), which is what its options are read from",
            "Give a Python function or class as `build`.",
        ) from error
    require(
        entry.summary.strip().endswith("."),
        f"its summary is {entry.summary!r}",
        "Write one sentence that ends with a full stop; `unmask list` shows it.",
    )
    require(
        entry.reference.strip(),
        "its reference is empty",
        "Name the paper, equation or standard it comes from; write 'none' if there is none.",
    )
    require(
        inspect.getdoc(build),
        f"its builder {getattr(build, '__name__', build)} has no docstring",
        "Describe what it does and its options; `unmask show` reads it.",
    )


def documents_every_option(subject: Subject) -> None:
    """Every option has a type and a sentence of its own, which manifests and `unmask show` rely on."""
    options = subject.options_on_offer()
    untyped = [option.name for option in options if option.annotation is Anything]
    require(
        not untyped,
        f"there is no type annotation, or one that cannot be resolved, for {', '.join(untyped)}",
        "Annotate every parameter of the builder; what is imported under TYPE_CHECKING alone cannot be "
        "resolved.",
    )
    silent = [option.name for option in options if not option.help.strip()]
    require(
        not silent,
        f"the docstring does not say what {', '.join(silent)} means",
        "Describe it under 'Attributes:' (classes) or 'Args:' (functions): `name: What it is, in units of "
        "...`.",
    )


def names_a_recipe_that_exists(subject: Subject) -> None:
    """The recipe that an entry names is registered and takes the options the entry gives it."""
    from unmask.components import recipe

    table = dict(getattr(subject.entry, "recipe", None) or {})
    if not table:
        return
    name = table.pop("use", None)
    require(name is not None, f"its recipe {table!r} lacks 'use'", "Name the training recipe with 'use'.")
    try:
        recipe(str(name), **table)
    except ValueError as error:
        raise LawBroken(
            f"its recipe cannot be built: {error}", "Name a recipe of `unmask list recipes` and its options."
        ) from error


CHECKS = (is_registered_and_described, documents_every_option, names_a_recipe_that_exists)
