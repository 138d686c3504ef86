"""The ``unmask`` command: its subcommands, and what becomes of errors.

Exit status: 0 done; 1 unexpected; 2 the user's input is wrong; 3 some cells failed; 4 a check or the verdict
fired under ``--strict``; 130 interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from unmask import interrupt
from unmask.cli import print_no_more, reader_gone
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
from unmask.cli.tolerant import error_stream_tolerated
from unmask.cli.train import train

__all__ = ["app", "main"]

_TRACEBACK = "UNMASK_TRACEBACK"
_tracebacks = False


class _Commands(TyperGroup):
    """The commands; however the code that one of them works with ends, it does not end the process."""

    def invoke(self, context: Any) -> Any:
        """Do the command that was given."""
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            raise typer.Exit(_interrupted()) from None
        except (Exception, typer.Exit):
            raise
        except BaseException as cause:
            if reader_gone(cause):
                # A command that only shows something has done its work.
                raise typer.Exit(int(context.invoked_subcommand in ("run", "train"))) from None
            from unmask.crashes import CrashError, reason

            raise CrashError(f"{reason(cause)}: code that the command works with tried to end it") from cause


app = typer.Typer(
    cls=_Commands,
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
    if sys.platform == "linux" and arguments is None and _is_attended(sys.argv[1:]):
        from unmask.cli.attended import attended

        attended(_done)
    sys.exit(_done(arguments=arguments))


def _done(
    begin: Callable[[], None] = lambda: None,
    leave: Callable[[int], object] = os._exit,
    arguments: Sequence[str] | None = None,
) -> int:
    """Do the command; the exit status.

    Args:
        begin: Called when Ctrl-C may come.
        leave: Ends the process at once.
        arguments: As for `main`.
    """
    from unmask.crashes import CrashError
    from unmask.errors import UserError

    if sys.stdout is None:
        print_no_more()
    with error_stream_tolerated(), interrupt.orderly(lambda: "", leave):
        try:
            begin()
            command = typer.main.get_command(app)
            command.main(args=None if arguments is None else list(arguments), prog_name="unmask")
        except SystemExit as end:
            if _was_interrupted(end):
                return _interrupted()
            return _printed(end.code if isinstance(end.code, int) else int(end.code is not None))
        except UserError as error:
            _print_error(str(error), error)
            return 2
        except KeyboardInterrupt:
            return _interrupted()
        except CrashError as error:
            _print_error(str(error), error)
            return 1
        except OSError as error:
            if error.errno not in _FULL or error.filename is not None:
                return _unexpected(error)
            _print_error(f"something cannot be written: {error}. Make room, or choose another place.", error)
            return 1
        except Exception as error:
            # Ctrl-C in the middle of an import can come out as anything.
            return _interrupted() if interrupt.asked() else _unexpected(error)
    raise AssertionError("a command ends in SystemExit")


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _unexpected(error: Exception) -> int:
    from unmask.errors import in_words

    _print_error(
        f"unexpected {in_words(error)}",
        error,
        "Run `unmask --traceback ...` to see where it comes from.",
    )
    return 1


def _was_interrupted(end: BaseException | None) -> bool:
    """Whether the library that reads the command line has met Ctrl-C, about which it says nothing."""
    while end is not None and not isinstance(end, KeyboardInterrupt):
        end = end.__cause__ or (None if end.__suppress_context__ else end.__context__)
    return end is not None


def _interrupted() -> int:
    with contextlib.suppress(ValueError):  # not in the main thread
        # The command ends already, and is to end in words.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    typer.echo("interrupted", err=True)
    return 130


def _printed(status: int) -> int:
    """The exit status, once all that was printed is out."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError) as error:
        print_no_more()
        if not reader_gone(error):
            typer.echo(f"error: the output cannot be written: {error}", err=True)
            return status or 1
    return status


def _is_attended(arguments: Sequence[str]) -> bool:
    """Whether the command works with models, and so with anybody's code."""
    command = next((word for word in arguments if not word.startswith("-")), None)
    return command in ("run", "check", "train")


def _print_error(message: str, error: Exception, hint: str = "") -> None:
    if _tracebacks:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    typer.echo(f"error: {message}", err=True)
    if hint and not _tracebacks:
        typer.echo(hint, err=True)
