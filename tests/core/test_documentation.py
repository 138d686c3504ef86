"""All code in README and docs is executed, manifests are checked, commands parsed, and nothing is missing."""

from __future__ import annotations

import importlib.util
import inspect
import re
import shlex
import sys
from itertools import chain
from pathlib import Path

import pytest
import typer

from unmask import hookspecs
from unmask.cli.main import app
from unmask.manifest.checking import check_manifest
from unmask.manifest.reading import parse_manifest
from unmask.plugins.catalog import KINDS, catalog
from unmask.plugins.describing import options_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def _module(path: Path):
    sys.path.insert(0, str(path.parent))
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


snippets = _module(DOCS / "snippets.py")
PAGES = snippets.pages()


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    return _module(DOCS / "_extensions" / "generated_reference.py").reference_pages()


@pytest.mark.parametrize("page", [page for page in PAGES if page.blocks], ids=lambda page: page.name)
def test_code_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    printed = dict(snippets.executed(page, tmp_path))
    for before, block in zip(page.blocks, page.blocks[1:], strict=False):
        if block.language == "output" and before in printed:
            assert snippets.alike(block.code, printed[before]), (
                f"{page.name}:{block.line} says\n{block.code}\nand its code printed\n{printed[before]}"
            )
    monkeypatch.chdir(tmp_path)
    missing = [library for library in catalog().of_libraries("attacks") if not library.installed]
    for block in page.blocks:
        if any(f'"{library.name}:' in block.code for library in missing):
            continue  # the options of what is not installed are not known
        if block.language == "toml" and (whole := snippets.completed(block.code)) is not None:
            check_manifest(parse_manifest(whole, folder=tmp_path, file=f"{page.name}:{block.line}"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist_and_take_what_they_are_given(page):
    typed = [block.code for block in page.blocks if block.language in ("sh", "console")]
    mentioned = [" ".join(code.split()) for code in re.findall(r"`(unmask [^`]+)`", page.text)]
    group = typer.main.get_command(app)
    own = {"--help", *chain.from_iterable(option.opts for option in group.params)}
    for arguments in chain.from_iterable(map(snippets.command_lines, [*typed, *mentioned])):
        while arguments and arguments[0] in own:
            arguments = arguments[1:]
        if not arguments or arguments[0] in ("COMMAND", "..."):
            continue
        # A word in capitals stands for a value, which may have to be a number.
        name, *rest = [re.sub(r"^[A-Z]{3,}$", "1", argument) for argument in arguments]
        assert name in group.commands, f"{page.name}: unmask {name}"
        if "--help" in rest:
            continue
        try:
            group.commands[name].make_context(name, rest)
        except typer.BadParameter as error:
            # Prose may name a command without all it takes.
            only_named = shlex.join(arguments) in {code.partition(" ")[2] for code in mentioned}
            assert only_named and type(error).__name__ == "MissingParameter", (
                f"{page.name}: {arguments}: {error}"
            )


def test_languages_of_blocks_are_known():
    known = {"python", "toml", "sh", "console", "output", "text", "json", "setup"}
    for page in PAGES:
        for block in page.blocks:
            assert block.language in known or block.language.startswith("{"), f"{page.name}:{block.line}"


def test_numbers_may_differ_but_words_may_not():
    assert snippets.alike("pgd   90.0\nmasked\n", "pgd 87.5\nmasked")
    assert snippets.alike("a\n...\nc 1\n", "a\nb\nb\nc 2\n")
    assert not snippets.alike("masked\n", "no-sign\n")
    assert not snippets.alike("pgd nan\n", "pgd 0.5\n")
    assert not snippets.alike("a\n", "a\nb\n")


def test_commands_are_found_in_shell_code():
    code = "python -m x && .venv/bin/unmask run a.toml --workers 2   # two\nX=1 unmask list | less\nls\n"
    assert snippets.command_lines(code) == [["run", "a.toml", "--workers", "2"], ["list"]]


def test_fragments_of_manifests_are_completed_and_projects_are_not():
    assert 'use = "fab"' in snippets.completed('[attacks.fab]\nuse = "fab"\n')
    assert snippets.completed('[project]\nname = "x"\n') is None
    whole = parse_manifest(snippets.completed("seed = 3\n"), folder=ROOT)
    assert whole.seed == 3 and "pgd" in whole.attacks


@pytest.mark.parametrize("kind", KINDS)
def test_reference_has_every_component_and_every_option(reference, kind):
    page = reference[kind]
    for provided in catalog().entries(kind):
        if provided.distribution != "unmask":
            continue
        _, _, section = page.partition(f"\n## {provided.name}\n")
        section = section.split("\n## ")[0]
        assert provided.entry.summary in section
        for option in options_of(kind, provided):
            assert f"| `{option.name}` |" in section, f"{provided.name}: {option.name}"
            assert option.meaning, f"{kind} {provided.name}: nothing says what '{option.name}' does"


def test_reference_has_every_command_and_option(reference):
    for name, command in typer.main.get_command(app).commands.items():
        section = reference["commands"].partition(f"\n## unmask {name}\n")[2].split("\n## ")[0]
        assert command.help.splitlines()[0] in section
        for parameter in command.params:
            assert f"`{parameter.opts[0]}`" in section or f"`{parameter.name.upper()}`" in section


def test_reference_has_every_public_name(reference):
    import unmask

    for name in unmask.__all__:
        if name == "__version__" or inspect.ismodule(getattr(unmask, name)):
            continue
        assert re.search(rf":: unmask\.{name}$", reference["python-unmask"], re.MULTILINE), name


def test_every_key_of_a_manifest_is_explained(reference):
    from unmask.manifest.reading import TOP_LEVEL

    keys = reference["manifest"].partition("## The whole run")[2].split("\n## ")[0]
    for key in TOP_LEVEL:
        row = re.search(rf"^\| `{key}` \|.*\| (.*) \|$", keys, re.MULTILINE)
        assert row and row[1].strip(), key


def test_every_indicator_has_its_section_with_advice():
    from unmask.verdict.judgement import SOURCES

    text = (DOCS / "verdict.md").read_text(encoding="utf-8")
    for name in [*(source.name for source in SOURCES), "randomness"]:
        section = text.partition(f"\n### {name}\n")[2].split("\n#")[0]
        assert "What to do:" in section and len(section) > 200, f"docs/verdict.md lacks {name}"
    headings = re.findall(r"^### ([a-z-]+)$", text, re.MULTILINE)
    assert set(headings) == {*(source.name for source in SOURCES), "randomness"}


def test_every_diagnostic_attack_is_explained():
    from unmask.evaluation import diagnosing

    text = (DOCS / "verdict.md").read_text(encoding="utf-8")
    source = inspect.getsource(diagnosing)
    added = set(re.findall(r'\badd\("([a-z-]+)"', source))
    assert {"pgd", "square", "repeat"} <= added
    for name in added:
        assert f"`diagnose/{name}`" in text, name


def test_every_law_has_its_section():
    text = (DOCS / "laws.md").read_text(encoding="utf-8")
    laws = re.findall(r"^## (\d+)\. ", text, re.MULTILINE)
    assert laws == [str(i) for i in range(1, 11)]


def test_every_hook_is_documented():
    text = (DOCS / "plugins.md").read_text(encoding="utf-8")
    hooks = [name for name in vars(hookspecs) if name.startswith("unmask_")]
    assert len(hooks) == len(KINDS) + 1
    for hook in hooks:
        assert f"`{hook}`" in text, f"docs/plugins.md says nothing of {hook}"


def test_every_variable_and_coordinate_of_a_result_is_explained():
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    results = _module(DOCS / "illustrations.py").results
    for name in map(str, results.variables):
        assert re.search(f"`{name}[`(]", text), f"docs/results.md does not explain '{name}'"


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in PAGES:
        for block in page.blocks:
            if block.language == "{toctree}":
                for line in filter(str.strip, block.code.splitlines()):
                    found = page.path.parent.glob(f"{line}.md") if "*" in line else []
                    listed |= {path.resolve().with_suffix("") for path in found}
                    listed.add((page.path.parent / line).resolve())
    for page in PAGES:
        if page.name not in ("README.md", "docs/index.md"):
            assert page.path.with_suffix("") in listed, f"{page.name} is in no toctree"


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.text):
            if "://" in target or "generated/" in target:
                continue
            assert (page.path.parent / target).exists(), f"{page.name}: {target}"
