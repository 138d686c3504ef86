"""The page of the command line, made from the commands themselves."""

from __future__ import annotations

import inspect

import typer
from markdown import table

from unmask.cli.main import app

__all__ = ["command_page"]


def command_page() -> str:
    """Every command with its arguments, options and defaults."""
    group = typer.main.get_command(app)
    parts = ["# Commands\n", f"{group.help}\n", _parameters(group)]
    context = typer.Context(group, info_name="unmask")
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        pieces = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
        usage = " ".join(["[OPTIONS]", *(piece.strip("{}").upper() for piece in pieces)])
        parts += [
            f"## unmask {name}\n",
            f"```text\nunmask {name} {usage}\n```\n",
            f"{inspect.cleandoc(command.help or '')}\n",
            _parameters(command),
        ]
    parts.append(
        "## Exit status\n\n0 done; 1 unexpected; 2 the input is wrong; 3 some cells failed; 4 with "
        "`--strict`, the verdict says masked; 130 interrupted.\n"
    )
    return "\n".join(part for part in parts if part)


def _parameters(command: object) -> str:
    rows = []
    for parameter in command.params:  # type: ignore[attr-defined]
        help_text = getattr(parameter, "help", None) or ""
        if parameter.param_type_name == "argument":
            optional = "" if parameter.required else " (may be left out)"
            rows.append((f"`{parameter.name.upper()}`", "", help_text + optional))
            continue
        names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
        shown = parameter.default not in (None, False, "") and "[default" not in help_text
        rows.append((names, f"`{parameter.default}`" if shown else "", help_text))
    return table(("argument or option", "default", "meaning"), rows)
