"""From a name in a library to a builder whose signature is the library's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

import attrs
from torch import Tensor

from unmask.entries import Library
from unmask.errors import UserError
from unmask_plugins.adapters.door import LibraryAttack, Problem
from unmask_plugins.adapters.listing import Listed
from unmask_plugins.adapters.signatures import LibraryOption, options_of

__all__ = ["Offering"]

_TOGETHER = LibraryOption(
    "together",
    bool,
    False,
    "Hand the library all samples of a batch at once: faster, but outcomes then depend on the batch.",
)

_UNTOLD = "The library does not say."

Call = Callable[[Any, Problem, dict[str, Any]], Tensor]
"""The library's class or function, the problem and the options to the examples."""


@attrs.frozen
class Offering:
    """The attacks of one library; each is an attribute, a builder with the options as its signature.

    Attributes:
        library: Whose attacks they are.
        listed: Which are offered.
        find: The library's class or function of a name; imports the library.
        call: Runs it.
        hidden: Parameters that are no options, because `call` sets them.
    """

    library: Library
    listed: Iterable[Listed]
    find: Callable[[str], Any]
    call: Call
    hidden: Collection[str]

    def __getattr__(self, name: str) -> Callable[..., LibraryAttack]:
        """The builder of one attack.

        Raises:
            AttributeError: None of that name is offered.
            UserError: The installed version of the library does not have it.
        """
        if name.startswith("_") or name in attrs.fields_dict(type(self)):
            raise AttributeError(name)  # asked for while it is being made or unpickled
        listed = next((attack for attack in self.listed if name in attack.names), None)
        if listed is None:
            raise AttributeError(f"no attack '{name}' of {self.library.name} is offered")
        if listed.needs and find_spec(listed.needs) is None:
            raise UserError(
                f"'{self.library.name}:{name}' needs {listed.needs}, which is not installed: "
                f"pip install {listed.needs}"
            )
        try:
            theirs = self.find(name)
        except AttributeError as error:
            raise UserError(f"{self.library} has no '{name}'.") from error
        options = options_of(theirs, hidden=self.hidden, relative=listed.relative, defaults=listed.defaults)
        return _builder(name, listed, [*options, _TOGETHER], partial(self._run, name, listed.relative))

    def _run(
        self, name: str, relative: Mapping[str, float], options: Mapping[str, Any], problem: Problem
    ) -> Tensor:
        # By its name, so that an attack can be sent to a worker, which finds the library by itself.
        values = dict(options)
        for key, share in relative.items():
            if values.get(key) is None:
                values[key] = share * problem.epsilon
        return self.call(self.find(name), problem, values)


def _builder(
    name: str,
    listed: Listed,
    options: list[LibraryOption],
    run: Callable[[Mapping[str, Any], Problem], Tensor],
) -> Callable[..., LibraryAttack]:
    defaults = {
        option.name: option.default
        for option in options
        if option.default is not inspect.Parameter.empty and option is not _TOGETHER
    }

    least = {option.name: option.least for option in options}

    def build(**given: Any) -> LibraryAttack:
        for key, value in given.items():
            bound = least.get(key)
            if bound is not None and value < bound:
                raise ValueError(f"{key} must be at least {bound}, not {value}")
        together = given.pop(_TOGETHER.name, False)
        return LibraryAttack(partial(run, {**defaults, **given}), together)

    parameters = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=option.default,
            annotation=option.annotation,
        )
        for option in options
    ]
    build.__name__ = build.__qualname__ = name
    build.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    build.__annotations__ = {option.name: option.annotation for option in options}
    texts = "\n".join(f"    {option.name}: {option.text or _UNTOLD}" for option in options)
    build.__doc__ = f"{listed.summary}\n\nArgs:\n{texts}\n"
    return build
