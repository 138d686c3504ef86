"""Options of a component, read off the signature of what builds it.

The signature is the contract: parameter names are the options, annotations their types, defaults their
defaults, and the docstring's ``Attributes`` or ``Args`` section their help.
"""

from __future__ import annotations

import inspect
import unicodedata
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import attrs

from unmask.entries import LazyBuilder
from unmask.errors import MisuseError, UserError, suggestion
from unmask.option_types import Anything, hints_of, in_words
from unmask.option_values import Place, convert, shown

__all__ = ["Option", "build_with", "check_options", "describe_options"]

_MISUSE_OF_FILES = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


@attrs.frozen
class Option:
    """One option of a component.

    Attributes:
        name: As manifests write it, with hyphens.
        type: What it takes, in words.
        default: The value it has when it is not given; None where `required`.
        required: It has no default.
        help: What the docstring says of it.
        annotation: The type itself.
    """

    name: str
    type: str
    default: Any
    required: bool
    help: str
    annotation: Any = attrs.field(repr=False)

    @property
    def parameter(self) -> str:
        """The name in Python, with underscores."""
        return self.name.replace("-", "_")


def describe_options(build: Callable[..., Any], *, skip: Collection[str] = ()) -> list[Option]:
    """The options of a builder, in the order of its signature.

    Args:
        build: Function, class or `LazyBuilder`.
        skip: Parameters that are not options, such as an ensemble's ``members``.
    """
    build = _resolved(build)
    hints = hints_of(build)
    help_texts = _documented(build)
    options = []
    for parameter in _parameters(build, skip)[0]:
        annotation = hints.get(parameter.name, Anything)
        default = _default(build, parameter)
        required = default is inspect.Parameter.empty
        options.append(
            Option(
                name=parameter.name.replace("_", "-"),
                type=in_words(annotation),
                default=None if required else default,
                required=required,
                help=help_texts.get(parameter.name, ""),
                annotation=annotation,
            )
        )
    return options


def check_options(
    build: Callable[..., Any],
    raw: Mapping[str, Any],
    where: str = "",
    *,
    base: Path | None = None,
    skip: Collection[str] = (),
    hyphens: bool = True,
) -> dict[str, Any]:
    """The given options, converted and ready to be passed to `build`; defaults are not filled in.

    Args:
        build: Function, class or `LazyBuilder`.
        raw: What the user wrote, keys with hyphens or underscores.
        where: The key path of the table, for messages.
        base: The folder that relative paths start from; None: the working directory.
        skip: Parameters that are not options.
        hyphens: Messages spell keys with hyphens, as in a manifest; otherwise as in Python.

    Raises:
        UserError: A key is unknown, missing or given twice, or a value cannot be what it should.
        MisuseError: A value is of the wrong type.
    """
    build = _resolved(build)
    parameters, rest = _parameters(build, skip)
    by_name = {parameter.name: parameter for parameter in parameters}
    hints = hints_of(build)

    def spelt(name: str) -> str:
        return name.replace("_", "-") if hyphens else name

    values: dict[str, Any] = {}
    for key, value in raw.items():
        if not isinstance(key, str):
            raise MisuseError(f"option names are text, not {shown(key)}.", where=where or None)
        place = f"{where}.{key}" if where else key
        name = unicodedata.normalize("NFKC", key).replace("-", "_")
        if name not in by_name and rest is None:
            known = [spelt(known) for known in by_name]
            hint = suggestion(key, known) if known else "It takes no options."
            if not hyphens and "_" in key:
                hint = suggestion(key, [k.replace("_", "-") for k in known]).replace("-", "_")
            raise UserError(f"there is no option '{key}'. {hint}", where=where or None)
        if name in values:
            raise UserError("is given twice, with a hyphen and with an underscore.", where=place)
        owner = by_name[name].name if name in by_name else rest
        annotation = hints.get(owner, Anything) if owner is not None else Anything
        values[name] = convert(value, annotation, Place(place, base, hyphens))
    for parameter in parameters:
        if parameter.name not in values and _default(build, parameter) is inspect.Parameter.empty:
            words = in_words(hints.get(parameter.name, Anything))
            raise UserError(f"needs the option '{spelt(parameter.name)}' ({words}).", where=where or None)
    return values


def build_with(
    build: Callable[..., Any],
    values: Mapping[str, Any],
    where: str = "",
    *,
    arguments: tuple[Any, ...] = (),
    hyphens: bool = True,
) -> Any:
    """What `build` makes of checked options; what it refuses is the user's error, at the option's key path.

    Raises:
        UserError: The builder refuses a value (`ValueError`), or a file it needs is not there.
        MisuseError: The builder refuses a type (`TypeError`).
    """
    try:
        return _resolved(build)(*arguments, **values)
    except UserError as error:
        raise error.located(where=where or None) from error
    except (ValueError, TypeError, *_MISUSE_OF_FILES) as error:
        kind = MisuseError if isinstance(error, TypeError) else UserError
        # attrs validators pass (message, attribute, ...); OSError has its own wording.
        message = str(error.args[0]) if error.args and not isinstance(error, OSError) else str(error)
        key = _option_at_fault(error, message, values)
        if key and hyphens:
            key = key.replace("_", "-")
        place = ".".join(part for part in (where, key) if part)
        raise kind(message.rstrip(".") + ".", where=place or None) from error


def _option_at_fault(error: Exception, message: str, values: Mapping[str, Any]) -> str | None:
    for argument in error.args:
        if isinstance(argument, attrs.Attribute):
            return argument.alias or argument.name
    first = message.split(maxsplit=1)[0] if message.strip() else ""
    named = [key for key in values if f"'{key}'" in message or key == first]
    return named[0] if len(named) == 1 else None


def _resolved(build: Callable[..., Any]) -> Callable[..., Any]:
    return build.resolve() if isinstance(build, LazyBuilder) else build


def _parameters(
    build: Callable[..., Any], skip: Collection[str]
) -> tuple[list[inspect.Parameter], str | None]:
    """The parameters that are options, and the name of the one that takes all others, if there is one."""
    named, rest = [], None
    try:
        signature = inspect.signature(build)
    except ValueError:  # built into Python and silent about what it takes
        signature = inspect.Signature()
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            rest = parameter.name
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            named.append(parameter)
    private = {parameter.name for parameter in named if parameter.name.startswith("_")}
    return [parameter for parameter in named if parameter.name not in {*skip, *private}], rest


def _default(build: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    if parameter.default is attrs.NOTHING and inspect.isclass(build) and attrs.has(build):
        # A default that a factory makes, which the signature only hints at.
        for field in attrs.fields(build):
            if (field.alias or field.name) == parameter.name and isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
                return None if field.default.takes_self else field.default.factory()
    return parameter.default


def _documented(build: Callable[..., Any]) -> dict[str, str]:
    """What the docstring says of each parameter; of a class, also its constructor's and its bases'."""
    texts: dict[str, str] = {}
    sources: list[Any] = [build]
    if inspect.isclass(build):
        sources = [
            source
            for base in reversed(build.__mro__[:-1])
            for source in (base.__dict__.get("__init__"), base)
        ]
    for source in sources:
        docstring = getattr(source, "__doc__", None)
        if docstring and not getattr(source, "__wrapped__", None):
            texts.update(_sections(inspect.cleandoc(docstring)))
    return texts


def _sections(docstring: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    inside, current, indent = False, None, 0
    for line in docstring.splitlines():
        stripped = line.strip()
        depth = len(line) - len(line.lstrip())
        if depth == 0 and stripped:
            inside, current, indent = stripped in ("Args:", "Attributes:"), None, 0
        elif inside and stripped:
            indent = indent or depth
            name, colon, text = stripped.partition(":")
            if depth == indent and colon:
                current = name.split(" (")[0].strip("`* ")
                texts[current] = text.strip()
            elif current is not None:
                texts[current] = f"{texts[current]} {stripped}".strip()
    return texts
