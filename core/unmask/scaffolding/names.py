"""The names of a new plugin, all made from one, and what is wrong with a bad one."""

from __future__ import annotations

import keyword
import re
import sys

import attrs
from packaging.utils import InvalidName, canonicalize_name

from unmask.errors import UserError

__all__ = ["PluginNames"]

_OURS = ("unmask", "unmask-plugins", "unmask-kernels")
_TAKEN = (
    "tests",
    "test",
    "conftest",
    "torch",
    "numpy",
    "attrs",
    "attr",
    "pytest",
    "mypy",
    "ruff",
    "hatchling",
)
_LONGEST = 100
"""Letters; file systems take 255, of which other parts of the files' names need some."""


@attrs.frozen
class PluginNames:
    """What a plugin and its parts are called.

    Attributes:
        distribution: What is installed, and the attack's registered name: ``my-attack``.
        module: What is imported: ``my_attack``.
        class_name: The attack's class: ``MyAttack``.
    """

    distribution: str
    module: str
    class_name: str

    @classmethod
    def of(cls, name: str) -> PluginNames:
        """The names that follow from the one the user gave.

        Raises:
            UserError: It is no name of a distribution (PEP 503, PEP 508), or its module could not be
                imported, or would hide another.
        """
        try:
            distribution = str(canonicalize_name(name, validate=True))
        except InvalidName:
            guess = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()
            hint = f" Try '{guess}'." if guess and guess[0].isalpha() else " Such as: my-attack."
            raise UserError(
                f"'{name}' is no name of a Python distribution: letters, digits, hyphens, underscores and "
                "dots, "
                f"with a letter or digit at both ends.{hint}",
                where="NAME",
            ) from None
        if len(distribution) > _LONGEST:
            raise UserError(
                f"has {len(distribution)} letters; files are named after it, so that at most {_LONGEST} fit.",
                where="NAME",
            )
        module = distribution.replace("-", "_")
        if not module.isidentifier():
            raise UserError(
                f"'{name}' makes the module '{module}', which Python cannot import: a module's name begins "
                "with a "
                f"letter. Try 'attack-{distribution}'.",
                where="NAME",
            )
        if distribution in _OURS:
            raise UserError(f"'{name}' is a package of Unmask's own. Choose another name.", where="NAME")
        if keyword.iskeyword(module) or module in sys.stdlib_module_names or module in _TAKEN:
            what = "a word of Python's" if keyword.iskeyword(module) else "a module that is there already"
            raise UserError(
                f"'{name}' makes the module '{module}', which is {what}. Try '{distribution}-attack'.",
                where="NAME",
            )
        return cls(distribution, module, "".join(part.capitalize() for part in module.split("_") if part))
