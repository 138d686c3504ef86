"""Build the wheel and the sdist, install the wheel into a clean environment, and run it outside the checkout.

python .ci/distributions.py                        # with the libraries of the environment it runs in
python .ci/distributions.py python3.12 python3.13  # and for each that is found with libraries of its own
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"unmask": "core", "unmask_plugins": "plugins", "unmask_kernels": "kernels"}
INSIDE = (
    *(f"{package}/py.typed" for package in PACKAGES),
    "unmask/reports/templates/report.html",
    "unmask/reports/templates/report.css",
    "unmask/reports/templates/report.js",
    "unmask/scaffolding/templates/attack.py.j2",
    "unmask/scaffolding/templates/py.typed.j2",
    "unmask/scaffolding/templates/gitignore.j2",
)
MANIFEST = """
name = "installed"
epsilons = ["0.1"]
data = { use = "digits", samples = 10 }
attacks.pgd = { use = "pgd", steps = 2 }
attacks.square = { use = "square", queries = 4 }

[models.backbone]
use = "small-cnn"
recipe = { use = "standard", epochs = 1 }
"""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def built(folder: Path) -> Path:
    """The wheel, after sdist and wheel were found to hold what they should."""
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = run("git", "ls-files", *PACKAGES.values(), cwd=ROOT).splitlines()
    missing = {path.partition("/")[2] for path in tracked} - names | set(INSIDE) - names
    if missing:
        sys.exit(f"the wheel lacks {', '.join(sorted(missing))}")
    again = folder / "again"
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
        "-w", again, sdist,
    )  # fmt: skip
    (second,) = again.glob("*.whl")
    if set(zipfile.ZipFile(second).namelist()) != names:
        sys.exit("the wheel that the sdist makes is another one")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in ("LICENSE", "README.md", "CITATION.cff", "manifests/quickstart.toml", "tests/conftest.py"):
        if wanted not in inside:
            sys.exit(f"the sdist lacks {wanted}")
    return wheel


def installed(wheel: Path, folder: Path, python: str | None) -> Path:
    """The interpreter of a clean environment with the wheel; with libraries of its own for another Python."""
    run(python or sys.executable, "-m", "venv", "--without-pip", folder)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet")
    if python is None:
        run(*pip, "--no-deps", "--no-index", wheel)
        (site,) = (folder / "lib").glob("python*/site-packages")
        # Behind the clean environment's own packages, so that only the libraries are taken from there.
        (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    else:
        run(*pip, wheel)
    return folder / "bin" / "python"


def used(python: Path, folder: Path) -> None:
    """Run the quick way through the house, outside the checkout."""
    folder.mkdir()
    where = run(python, "-c", "import unmask, unmask_plugins; print(unmask.__file__)", cwd=folder).strip()
    if not Path(where).is_relative_to(python.parents[1]):
        sys.exit(f"it is not the installed package that is imported, but {where}")
    (folder / "manifest.toml").write_text(MANIFEST)
    unmask = python.with_name("unmask")
    run(unmask, "run", "manifest.toml", cwd=folder)
    if "<html" not in (folder / "runs" / "installed" / "report.html").read_text():
        sys.exit("the report is no page")
    run(unmask, "schema", "-o", "schema.json", cwd=folder)
    run(unmask, "new-plugin", "clean-walk", cwd=folder)


def main(interpreters: list[str]) -> None:
    """Build once, then install and run for this Python and for every other that is found."""
    found = []
    for name in interpreters:
        if (
            shutil.which(name)
            and not subprocess.run([name, "-V"], capture_output=True, check=False).returncode
        ):
            found.append(name)
        else:
            print(f"{name}: not found, and so not tried")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        wheel = built(folder / "dist")
        for k, python in enumerate([None, *found]):
            used(installed(wheel, folder / f"clean{k}", python), folder / f"elsewhere{k}")
            print(f"{wheel.name}: installs and runs with {python or sys.executable}")


if __name__ == "__main__":
    main(sys.argv[1:])
