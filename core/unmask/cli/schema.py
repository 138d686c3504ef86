"""``unmask schema``: the manifest's JSON Schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["schema"]


def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file instead of the terminal.")
    ] = None,
) -> None:
    """Print the JSON Schema of manifests, with every installed component and its options, for editors."""
    import json

    from unmask.manifest.schema import manifest_schema

    content = json.dumps(manifest_schema(), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        typer.echo(content, nl=False)
        return

    from unmask.errors import UserError
    from unmask.results.atomic import write_atomically

    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, content)
    except OSError as error:
        raise UserError(
            f"the schema cannot be written here: {error}. Choose another place.",
            where="--output",
            file=str(output),
        ) from error
    typer.echo(f"wrote {output}")
