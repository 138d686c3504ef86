"""What is tested: one component with the options it is tested with."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import attrs

from unmask.building import build_component
from unmask.entries import Entry
from unmask.errors import UserError
from unmask.options import Option, describe_options
from unmask.plugins.catalog import Provided, catalog, singular
from unmask.testing.laws import LawBroken

__all__ = ["Check", "Subject", "name_of"]

T = TypeVar("T")
Check = Callable[[Any], None]
"""Raises `LawBroken` if the subject does not keep the law that its docstring states."""


def name_of(kind: str, provided: Provided) -> str:
    """The shortest name by which the catalog in use finds this entry.

    Raises:
        LawBroken: There is none: two entries of one plugin bear the name.
    """
    for name in (catalog().spelt(kind, provided), f"{provided.provider}:{provided.name}"):
        with suppress(UserError):
            if catalog().find(kind, name) == provided:
                return name
    raise LawBroken(
        f"the {singular(kind)} '{provided.name}' of {provided.provider} cannot be found by any name",
        "Register every name once in a plugin, and load the plugin: `unmask plugins` tells what failed.",
    )


@attrs.define(eq=False)
class Subject:
    """One component with the options it is tested with.

    Attributes:
        kind: Such as ``attacks``.
        provided: The entry and who provides it.
        options: As they were given to `conformance`, keys with underscores.
        image: Shape of the images that models and front ends are shown, (channel, height, width).
        members: How many members an ensemble is made of.
    """

    kind: str
    provided: Provided
    options: Mapping[str, Any] = attrs.field(factory=dict)
    image: tuple[int, int, int] = (3, 16, 16)
    members: int = 2
    _computed: dict[str, Any] = attrs.field(factory=dict, init=False, repr=False)

    @property
    def entry(self) -> Any:
        """What the plugin says of it."""
        entry: Entry = self.provided.entry
        return entry

    @property
    def use(self) -> str:
        """The shortest name that means it alone, whoever else offers the same one."""
        return name_of(self.kind, self.provided)

    @property
    def shown(self) -> str:
        """What it is called in messages."""
        return f"{singular(self.kind)} '{self.provided.name}'"

    @property
    def slug(self) -> str:
        """What the names of its tests begin with, after ``test_``."""
        return re.sub(r"\W+", "_", f"{singular(self.kind)}_{self.provided.name}")

    @property
    def skipped(self) -> tuple[str, ...]:
        """Parameters of its builder that are no options."""
        return ("members",) if self.kind == "ensembles" else ()

    def options_on_offer(self) -> list[Option]:
        """The options its builder takes."""
        return describe_options(self.provided.builder(), skip=self.skipped)

    def build(self, *arguments: Any, **more: Any) -> Any:
        """The component.

        Raises:
            LawBroken: It cannot be built with these options.
        """
        try:
            return build_component(
                self.kind,
                self.use,
                {**self.options, **more},
                where=self.shown,
                hyphens=False,
                arguments=arguments,
            )
        except UserError as error:
            raise LawBroken(
                f"it cannot be built: {error}",
                'Say what it needs: conformance(name, options={"option": value}); or mend its builder.',
            ) from error

    def once(self, what: str, compute: Callable[[], T]) -> T:
        """What `compute` gives, computed by the first check that asks."""
        if what not in self._computed:
            self._computed[what] = compute()
        found: T = self._computed[what]
        return found
