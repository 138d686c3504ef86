"""The paper's comparison on real CIFAR-10 images, as bench/paper_cifar10.toml says it.

    python -m bench.paper --data DIR [--out FOLDER] [--samples N]

DIR holds what README.md lists, and `cifar10-train-10000.npz` (in the form of the test images) besides. The
same command goes on where an earlier one stopped. Prints the report as Markdown; docs/paper.md has its table.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

MANIFEST = Path(__file__).with_name("paper_cifar10.toml")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with images and weights")
    parser.add_argument("--out", type=Path, default=Path("runs/paper-cifar10"), help="the run folder")
    parser.add_argument("--samples", type=int, help="images; the manifest's number unless given")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")

    import attrs

    from unmask.cli.progress_log import LogView
    from unmask.cli.progress_view import progress_view
    from unmask.errors import UserError
    from unmask.manifest.reading import parse_manifest
    from unmask.models.trained import TrainingView
    from unmask.reports.markdown import render_markdown
    from unmask.running import run_manifest

    try:
        said = parse_manifest(MANIFEST.read_text(encoding="utf-8"), folder=asked.data, file=str(MANIFEST))
        if asked.samples is not None:
            said = attrs.evolve(said, data=attrs.evolve(said.data, samples=asked.samples))
        with progress_view("text") as view:
            assert isinstance(view, LogView)
            training = TrainingView(view.train, view.say)
            results = run_manifest(said, asked.out, progress=view, training=training)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    print(render_markdown(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
