"""Result files in, reports and figures out, for the commands that do that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.errors import UserError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["opened_result", "refuse_replacing", "written"]


def opened_result(path: Path) -> AbstractContextManager[xr.Dataset]:
    """A result file, or the one in a run folder; what is not looked at is not read.

    Raises:
        UserError: As `unmask.load`, on the way in.
    """
    from unmask.results.storage import opened

    inside = path / "results.nc"
    return opened(inside if inside.is_file() else path)


def _result_in(path: Path) -> Path:
    """The result file of a run folder; what is none is taken for the file itself."""
    inside = path / "results.nc"
    return inside if inside.is_file() else path


def refuse_replacing(source: Path, output: Path) -> None:
    """Refuse to write over what is read: it would be gone.

    Raises:
        UserError: Both are one file.
    """
    source = _result_in(source)
    if source.exists() and output.exists() and output.samefile(source):
        raise UserError(
            "is the file that is read, and would be replaced. Name another file.",
            where="--output",
            file=str(output),
        )


@contextmanager
def written(output: Path, what: str) -> Iterator[Path]:
    """A place to write to, whose content becomes `output` whole or not at all.

    Args:
        output: The file; its folder is made.
        what: What it is, for the message.

    Raises:
        UserError: It is a folder, or cannot be written.
    """
    from unmask.results.atomic import replacing

    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        if output.is_dir():
            raise UserError(
                f"is a folder; name a file to write the {what} to.", where="--output", file=str(output)
            )
        with replacing(output) as temporary:
            yield temporary
    except OSError as error:
        raise UserError(
            f"the {what} cannot be written here: {error}. Choose another place.",
            where="--output",
            file=str(output),
        ) from error
