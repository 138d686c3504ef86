"""``python -m unmask``: the command line."""

from unmask.cli.main import main

if __name__ == "__main__":
    main()
