"""From a registered name and raw options to something that can be built, with every option checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import attrs

from unmask.building import find_component
from unmask.errors import UserError
from unmask.manifest.location import working_from
from unmask.manifest.tables import below
from unmask.options import build_with, check_options
from unmask.plugins.catalog import Provided
from unmask.provenance import settings_of

__all__ = ["Resolved", "resolve"]


@attrs.frozen
class Resolved:
    """A component that is known and whose options are right, but that is not built yet.

    Attributes:
        provided: The entry and who provides it.
        build: What builds it, imported.
        values: The given options, converted.
        where: Its key path.
        folder: Where relative paths start from.
    """

    provided: Provided
    build: Callable[..., Any]
    values: Mapping[str, Any]
    where: str
    folder: Path

    def accepts(self, parameter: str) -> bool:
        """Whether the builder has a parameter of this very name."""
        found = inspect.signature(self.build).parameters.get(parameter)
        return found is not None and found.kind in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY)

    @property
    def passes_options_on(self) -> bool:
        """Whether the builder takes options it does not name, for code that nobody can foresee."""
        parameters = inspect.signature(self.build).parameters.values()
        return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

    def make(self, **more: Any) -> Any:
        """The component, built with the manifest's options and these.

        Raises:
            UserError: The builder refuses a value.
        """
        with working_from(self.folder):
            return build_with(self.build, {**self.values, **more}, self.where)

    def described(self, **more: Any) -> dict[str, Any]:
        """What it is, who provides it and every option with its value, as JSON.

        Args:
            more: Options that were filled in beside the manifest's.
        """
        return {
            "use": self.provided.name,
            "provider": self.provided.provider,
            "version": self.provided.version,
            "options": settings_of(self.build, {**self.values, **more}, None),
        }


def resolve(
    kind: str,
    use: str,
    options: Mapping[str, Any],
    where: str,
    folder: Path,
    *,
    supplied: Collection[str] = (),
) -> Resolved:
    """Look a component up and check its options.

    Args:
        kind: ``model``, ``front-end``, ``data``, ...
        use: Registered name, or ``distribution:name``.
        options: As the manifest spells them.
        where: The key path of its table.
        folder: Where relative paths start from.
        supplied: Parameters that are filled in later unless the manifest gives them.

    Raises:
        UserError: The name or an option is unknown, an option is missing or has a wrong value.
    """
    provided = find_component(kind, use, below(where, "use"))
    try:
        build = provided.builder()
    except UserError as error:
        raise error.located(where=below(where, "use")) from error
    given = {key.replace("-", "_") for key in options}
    skip = [parameter for parameter in supplied if parameter not in given]
    values = check_options(build, options, where, base=folder, skip=skip)
    return Resolved(provided, build, values, where, folder)
