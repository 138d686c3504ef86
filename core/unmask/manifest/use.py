"""Tables that name a component: ``use`` and the component's options, or the name alone."""

from __future__ import annotations

import re
from typing import Any

from unmask.errors import UserError
from unmask.manifest.spec import DataSpec, RecipeSpec, WeightsSpec
from unmask.manifest.tables import Table, shown

__all__ = ["read_data", "read_recipe", "read_use", "read_weights"]

_SHA256 = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_NAME = re.compile(r'(?:[^\s:"]+:)?[^\s:/"]+')


def read_use(raw: Any, where: str, example: str) -> tuple[Table, str]:
    """A component's table and its registered name; plain text is a table with nothing but the name.

    Raises:
        UserError: No table, no ``use``, or a name that no component can have.
    """
    plain = isinstance(raw, str)
    table = Table({"use": raw} if plain else raw, where, f"{{ {example} }}")
    if "use" not in table:
        raise UserError(f"does not say which component: write {example}.", where=where)
    use = table.text("use")
    if not _NAME.fullmatch(use):
        raise UserError(
            f'{shown(use)} cannot name a component: a name such as "pgd", or "distribution:name".',
            where=where if plain else table.at("use"),
        )
    return table, use


def read_data(raw: Any, where: str) -> DataSpec:
    """A data set's table."""
    table, use = read_use(raw, where, 'use = "digits"')
    return DataSpec(use, table.whole("samples", None, least=1), table.options(("use", "samples")))


def read_recipe(raw: Any, where: str) -> RecipeSpec:
    """A training recipe's table."""
    table, use = read_use(raw, where, 'use = "standard"')
    data = read_data(table.raw["data"], table.at("data")) if "data" in table else None
    seed = table.whole("seed", 0, least=0)
    assert seed is not None
    return RecipeSpec(use, table.options(("use", "data", "seed")), data, seed)


def read_weights(table: Table) -> WeightsSpec | None:
    """The weights of a model's table, and the hash they must have."""
    if "weights" not in table:
        if "sha256" in table:
            raise UserError(
                "is the hash of a weights file, but there is no key 'weights'. Add weights = \"...\".",
                where=table.at("sha256"),
            )
        return None
    path = table.text("weights")
    sha256 = table.text("sha256", None)
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise UserError(
            f"must be 64 hexadecimal digits, as sha256sum prints them, not {shown(sha256)}.",
            where=table.at("sha256"),
        )
    return WeightsSpec(path, sha256.lower() if sha256 else None)
