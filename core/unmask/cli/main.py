"""The ``unmask`` command: its subcommands, and what becomes of errors.

Exit status: 0 done; 1 unexpected; 2 the user's input is wrong; 3 some cells failed; 4 a check or the verdict
fired under ``--strict``; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from unmask.cli.check import check
from unmask.cli.compare import compare
from unmask.cli.import_results import import_file
from unmask.cli.list import list_entries
from unmask.cli.merge import merge
from unmask.cli.new_plugin import new_plugin
from unmask.cli.plot import plot
from unmask.cli.plugins import plugins
from unmask.cli.report import report
from unmask.cli.run import run
from unmask.cli.schema import schema
from unmask.cli.show import show
from unmask.cli.train import train

__all__ = ["app", "main"]

_TRACEBACK = "UNMASK_TRACEBACK"
_tracebacks = False

app = typer.Typer(
    name="unmask",
    help="Is this classifier's adversarial robustness real, or are its gradients masked?",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        import unmask

        typer.echo(f"unmask {unmask.__version__}")
        raise typer.Exit()


def _show_tracebacks(wanted: bool) -> None:
    global _tracebacks
    _tracebacks = wanted or os.environ.get(_TRACEBACK, "") not in ("", "0")


@app.callback()
def _unmask(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
    traceback: Annotated[
        bool,
        typer.Option(
            "--traceback",
            is_eager=True,
            callback=_show_tracebacks,
            help=f"Show the traceback of errors (also: {_TRACEBACK}=1).",
        ),
    ] = False,
) -> None:
    """Is this classifier's adversarial robustness real, or are its gradients masked?"""


app.command("run")(run)
app.command("check")(check)
app.command("report")(report)
app.command("plot")(plot)
app.command("compare")(compare)
app.command("merge")(merge)
app.command("import")(import_file)
app.command("train")(train)
app.command("schema")(schema)
app.command("list")(list_entries)
app.command("show")(show)
app.command("plugins")(plugins)
app.command("new-plugin")(new_plugin)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; always ends in `SystemExit`.

    Args:
        arguments: Without the program's name; None: the process's own.
    """
    # Imported here, so that it holds for the errors of every command.
    from unmask.errors import UserError

    if sys.platform == "linux" and arguments is None and _is_run(sys.argv[1:]):
        from unmask.cli.attended import attended

        attended()
    command = typer.main.get_command(app)
    try:
        command.main(args=None if arguments is None else list(arguments), prog_name="unmask")
    except UserError as error:
        _print_error(str(error), error)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)
    except Exception as error:
        kind = type(error).__name__
        _print_error(
            f"unexpected {kind}: {error}" if str(error) else f"unexpected {kind}",
            error,
            "Run `unmask --traceback ...` to see where it comes from.",
        )
        sys.exit(1)


def _is_run(arguments: Sequence[str]) -> bool:
    """Whether the command is `run`, which may last for days."""
    return next((word for word in arguments if not word.startswith("-")), None) == "run"


def _print_error(message: str, error: Exception, hint: str = "") -> None:
    if _tracebacks:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    typer.echo(f"error: {message}", err=True)
    if hint and not _tracebacks:
        typer.echo(hint, err=True)
