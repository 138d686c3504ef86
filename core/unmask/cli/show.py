"""``unmask show``: one component and its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import console

if TYPE_CHECKING:
    from unmask.plugins.catalog import Provided

__all__ = ["show"]


def show(
    kind: Annotated[str, typer.Argument(help="Such as attack, model or data.")],
    name: Annotated[str, typer.Argument(help="As `unmask list` writes it.")],
) -> None:
    """Show one component: what it is, where it comes from, and its options with their defaults."""
    from rich.markup import escape
    from rich.table import Table

    from unmask.options import describe_options
    from unmask.plugins.catalog import catalog, kind_named, singular

    kind = kind_named(kind)
    provided = catalog().find(kind, name)
    skip = ("members",) if kind == "ensembles" else ()
    options = describe_options(provided.builder(), skip=skip)
    out = console()
    name = catalog().spelt(kind, provided)
    out.print(f"[bold]{escape(name)}[/bold] ({singular(kind)}): {escape(provided.entry.summary)}")
    facts = Table(box=None, show_header=False, padding=(0, 3, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    for label, value in _facts(provided):
        facts.add_row(label, escape(value))
    out.print(facts)
    out.print()
    if not options:
        out.print("It takes no options.")
        return
    table = Table(title="options", title_justify="left", box=None, padding=(0, 3, 0, 0))
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("type")
    table.add_column("default")
    table.add_column("meaning", ratio=1)
    for option in options:
        default = "required" if option.required else _default(option.default)
        table.add_row(escape(option.name), escape(option.type), escape(default), escape(option.help))
    if kind == "attacks":
        for option_name, type_, meaning in _LIMITS:
            table.add_row(option_name, type_, "none", meaning)
        if getattr(provided.entry, "targeted", False):
            table.add_row("targeted", "true or false", "false", "Drive images towards a class, the target.")
            table.add_row("target", "whole number", "none", "The class to be reached.")
    if kind == "recipes":
        for option_name, type_, default, meaning in _OF_RECIPES:
            table.add_row(option_name, type_, default, meaning)
    out.print(table)


_OF_RECIPES = (
    (
        "data",
        "data set",
        "none",
        "What to train on; the training part of the manifest's data set unless given. Every recipe takes it.",
    ),
    (
        "seed",
        "whole number",
        "0",
        "Another one gives other initial weights and other random numbers on the way. Every recipe takes it.",
    ),
)

_LIMITS = (
    ("max-queries", "whole number", "Most forward passes per sample; every attack takes it."),
    ("timeout", "number", "Most seconds per cell; every attack takes it."),
)


def _facts(provided: Provided) -> list[tuple[str, str]]:
    """The fields of an entry beyond its name and summary, as far as they say something."""
    import attrs

    facts = [("provider", f"{provided.provider} (version {provided.version})")]
    for field in attrs.fields(type(provided.entry)):
        value = getattr(provided.entry, field.name)
        if field.name not in ("name", "summary", "build") and value not in (None, "", ()):
            facts.append((field.name, _fact(value)))
    return facts


def _fact(value: Any) -> str:
    from unmask.entries import LazyBuilder, Library

    if isinstance(value, LazyBuilder):
        return value.path
    if isinstance(value, Library):
        return str(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else _default(value)


def _default(value: Any) -> str:
    from unmask.provenance import value_as_json

    plain = value_as_json(value)
    if isinstance(plain, dict) and set(plain) == {"use"}:
        plain = plain["use"]
    return plain if isinstance(plain, str) else _as_toml(plain)


def _as_toml(value: Any) -> str:
    """A value as a manifest would say it; a table with nothing but ``use`` as the name alone."""
    import json

    if value is None:
        return "none"
    if isinstance(value, dict):
        if set(value) == {"use"}:
            return json.dumps(value["use"])
        pairs = (
            f"{key.replace('_', '-')} = {_as_toml(part)}" for key, part in value.items() if part is not None
        )
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_as_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
