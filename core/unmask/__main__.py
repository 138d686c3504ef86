"""``unmask`` and ``python -m unmask``: the command line."""

from __future__ import annotations

import os

__all__ = ["main"]


def main() -> None:
    """Run the command line with the arguments of the process; always ends in `SystemExit`."""
    try:
        from unmask.cli.main import main as command

        command()
    except KeyboardInterrupt:
        os.write(2, b"interrupted\n")
        os._exit(130)


if __name__ == "__main__":
    main()
