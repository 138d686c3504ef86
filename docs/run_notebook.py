"""Executes the notebook: ``python docs/run_notebook.py`` in place, ``--check`` without writing.

In place it is saved with its outputs and without what differs from run to run or belongs to one machine:
execution times, counters, paths. With ``--check`` it must run, and every cell must show the kinds of output
that are committed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

__all__ = ["cleaned", "executed", "kinds"]

NOTEBOOK = Path(__file__).parent / "notebook.ipynb"


def executed(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook run from top to bottom in an empty folder.

    Raises:
        CellExecutionError: A cell raises.
    """
    fresh = nbformat.from_dict(notebook)
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(fresh, timeout=300, resources={"metadata": {"path": folder}}).execute()
    return cleaned(fresh)


def cleaned(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without counters, times and what is written to the error stream."""
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                output.pop("transient", None)
                if "execution_count" in output:
                    output.execution_count = None
    return notebook


def kinds(notebook: nbformat.NotebookNode) -> list[list[str]]:
    """What every cell shows: the types of its outputs."""
    return [
        [kind for output in cell.get("outputs", []) for kind in sorted(output.get("data", {"stream": ""}))]
        for cell in notebook.cells
    ]


def main() -> int:
    """Execute, then write or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="do not write; fail on other kinds of output")
    check = parser.parse_args().check
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    committed = nbformat.read(NOTEBOOK, as_version=4)
    fresh = executed(committed)
    if check:
        if kinds(fresh) != kinds(committed):
            print(
                f"{NOTEBOOK.name} shows other kinds of output than it is committed with",
                file=sys.stderr,
            )
            return 1
        print(f"{NOTEBOOK.name} runs")
        return 0
    nbformat.write(fresh, NOTEBOOK)
    return 0


if __name__ == "__main__":
    sys.exit(main())
