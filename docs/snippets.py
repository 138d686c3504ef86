"""The code of the documentation: found, executed, and its printed output compared and renewed.

``python docs/snippets.py PAGE ...`` executes pages and writes what their code prints into their ``output``
blocks. The tests execute every page and compare.

A page's Python blocks run in order, in one namespace, in a folder of their own:

- ``<!-- setup ... -->`` is Python that readers do not see. It gives meaning to names such as ``backbone``.
- ``<!-- run -->`` before a shell block: its ``unmask`` commands are executed, not only parsed.
- ``<!-- needs foolbox -->``: what follows is executed only where that module is installed, and compiled
  everywhere.
- A block whose first line is a comment with a file name, such as ``# mine.toml``, is written to that file.
- An ``output`` block holds what the block before it printed. Numbers may differ from machine to machine, so
  only their places are compared; a line ``...`` stands for any lines.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs

__all__ = ["Block", "Page", "alike", "command_lines", "completed", "pages", "read_page"]

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

_PART = re.compile(
    r"^(?P<fence>`{3,}|:{3,})(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=fence)[ \t]*$|<!--(?P<comment>.*?)-->",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"#\s+(?P<path>[\w./-]+\.(?:py|toml))\s*$")
_NUMBER = re.compile(r"(?<![A-Za-z_])[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_RULE = re.compile(r"[━─═\-]{3,}")


@attrs.frozen
class Block:
    """One piece of code in a page.

    Attributes:
        language: ``python``, ``toml``, ``sh``, ``output``, ...; ``setup`` for hidden Python.
        code: Its text.
        line: The line of the page it begins in, from 1.
        start: Where its text begins in the page.
        marks: The comments since the block before, such as ``run``.
    """

    language: str
    code: str
    line: int
    start: int
    marks: tuple[str, ...] = ()

    @property
    def file(self) -> str | None:
        """The file it is, where its first line says so."""
        first = self.code.split("\n", 1)[0]
        found = _FILE.match(first)
        return found["path"] if found else None


@attrs.frozen
class Page:
    """A page and its code.

    Attributes:
        path: Where it lies.
        text: Its Markdown.
        blocks: Its code, in order.
    """

    path: Path
    text: str
    blocks: tuple[Block, ...]

    @property
    def name(self) -> str:
        """The path as seen from the repository."""
        return self.path.relative_to(ROOT).as_posix()


def pages() -> list[Page]:
    """README and every page of the documentation that is written by hand."""
    paths = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    kept = [p for p in paths if not {"generated", "_build"} & set(p.relative_to(ROOT).parts)]
    return [read_page(path) for path in kept]


def read_page(path: Path) -> Page:
    """A page taken apart."""
    text = path.read_text(encoding="utf-8")
    blocks, marks = [], []
    for part in _PART.finditer(text):
        comment = part["comment"]
        line = text.count("\n", 0, part.start()) + 1
        if comment is None:
            info = part["info"].strip().split()
            blocks.append(
                Block(info[0] if info else "", part["code"], line, part.start("code"), tuple(marks))
            )
            marks = []
        elif comment.split(None, 1)[:1] == ["setup"]:
            code = comment.split("setup", 1)[1].lstrip(" ")
            blocks.append(Block("setup", code, line, part.start("comment")))
        else:
            marks.append(" ".join(comment.split()))
    return Page(path, text, tuple(blocks))


def executed(page: Page, folder: Path) -> Iterator[tuple[Block, str]]:
    """Every block that prints, with what it printed, in order.

    Args:
        page: The page.
        folder: An empty folder, which becomes the working directory while it runs.

    Raises:
        Exception: Whatever the code raises; the traceback names page and line.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    available = True
    with contextlib.chdir(folder), _importable(folder):
        for block in page.blocks:
            for mark in block.marks:
                if mark.startswith("needs "):
                    available = all(find_spec(module) for module in mark.split()[1:])
            if block.file is not None:
                Path(block.file).parent.mkdir(parents=True, exist_ok=True)
                Path(block.file).write_text(block.code, encoding="utf-8")
            if block.language in ("python", "setup"):
                # Blank lines before the code, so that tracebacks name the line in the page.
                source = "\n" * block.line + block.code
                code = compile(source, page.name, "exec")
                if available:
                    with contextlib.redirect_stdout(io.StringIO()) as printed:
                        exec(code, namespace)
                    yield block, printed.getvalue()
            elif block.language in ("sh", "console") and "run" in block.marks and available:
                printed = io.StringIO()
                for arguments in command_lines(block.code):
                    printed.write(_command(arguments))
                yield block, printed.getvalue()


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Modules that a page writes, and those beside this one, can be imported while it runs."""
    before = set(sys.modules)
    sys.path[:0] = [str(folder), str(DOCS)]
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.path.remove(str(DOCS))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).is_relative_to(folder):
                del sys.modules[name]


def _command(arguments: list[str]) -> str:
    from unmask.cli.main import main

    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()):
        try:
            main(arguments)
        except SystemExit as end:
            if end.code not in (0, None):
                raise RuntimeError(
                    f"unmask {shlex.join(arguments)} ended with {end.code}:\n{printed.getvalue()}"
                ) from end
    return printed.getvalue()


def command_lines(code: str) -> list[list[str]]:
    """The arguments of every ``unmask`` command in shell code."""
    found = []
    for line in code.replace("\\\n", " ").splitlines():
        for part in re.split(r"&&|\|\||;|\|", line.removeprefix("$ ")):
            words = shlex.split(part, comments=True)
            while words and re.fullmatch(r"\w+=\S*", words[0]):
                words.pop(0)
            if words and words[0].rsplit("/", 1)[-1] == "unmask":
                found.append(words[1:])
    return found


def alike(said: str, printed: str) -> bool:
    """Whether a page's output block tells what was printed, but for the values of numbers."""
    pattern = ".*?".join(map(re.escape, re.split(r"(?:^|(?<=\n))\.\.\.\n", _plain(said))))
    return re.fullmatch(pattern, _plain(printed), re.DOTALL) is not None


def _plain(text: str) -> str:
    lines = (
        " ".join(_NUMBER.sub("#", _RULE.sub("---", line)).split()) for line in text.strip("\n").splitlines()
    )
    return "".join(f"{line}\n" for line in lines)


BASE = """
name = "fragment"
epsilons = ["8/255"]

[data]
use = "digits"

[models.backbone]
use = "small-cnn"

[models."backbone+front"]
backbone = "backbone"
front-end = { use = "dncnn" }

[attacks.pgd]
use = "pgd"
"""
"""What a fragment of a manifest is completed with."""


def completed(fragment: str) -> str | None:
    """A whole manifest from a block of TOML; None where it is no part of one."""
    raw = tomllib.loads(fragment)
    if {"project", "build-system", "tool"} & set(raw):
        return None
    base = tomllib.loads(BASE)
    if raw.keys() >= {"epsilons", "data", "models", "attacks"}:
        return fragment
    joined = {key: {**base[key], **raw.get(key, {})} for key in ("models", "attacks")}
    return _as_toml({**base, **raw, **joined})


def _as_toml(tables: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in tables.items())


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    return str(value)


def renewed(page: Page, folder: Path) -> str:
    """The page's text with every output block as it is printed now."""
    printed = dict(executed(page, folder))
    text, shift = page.text, 0
    for before, block in zip(page.blocks, page.blocks[1:], strict=False):
        if block.language != "output" or before not in printed or "\n...\n" in f"\n{block.code}":
            continue
        new = "".join(f"{line.rstrip()}\n" for line in printed[before].strip("\n").splitlines())
        start = block.start + shift
        text = text[:start] + new + text[start + len(block.code) :]
        shift += len(new) - len(block.code)
    return text


def _renew(names: list[str]) -> None:
    import tempfile

    for name in names:
        page = read_page(Path(name).resolve())
        with tempfile.TemporaryDirectory() as folder:
            text = renewed(page, Path(folder))
        page.path.write_text(text, encoding="utf-8")
        print(f"{page.name}: {'renewed' if text != page.text else 'as it was'}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _renew(sys.argv[1:])
