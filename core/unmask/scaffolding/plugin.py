"""A new plugin: an installable project with one attack, its tests and its continuous integration."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from unmask.errors import UserError
from unmask.scaffolding.names import PluginNames

__all__ = ["make_plugin"]

_FILES: Mapping[str, str] = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "gitignore": ".gitignore",
    "workflow.yml": ".github/workflows/tests.yml",
    "manifest.toml": "manifest.toml",
    "package.py": "{module}/__init__.py",
    "py.typed": "{module}/py.typed",
    "registration.py": "{module}/registration.py",
    "attack.py": "{module}/attack.py",
    "tests.py": "tests/test_{module}.py",
}
"""The project's files, by the template each comes from."""


def make_plugin(name: str, directory: Path) -> Path:
    """Make the project, whole or not at all.

    Args:
        name: What the distribution and its attack are called.
        directory: The folder to put the project's folder in.

    Returns:
        The project's folder.

    Raises:
        UserError: The name cannot be used, the folder is there already, or it cannot be written.
    """
    names = PluginNames.of(name)
    _refuse_taken(names)
    _refuse_installed(names)
    folder = directory / names.distribution
    if not directory.is_dir():
        raise UserError("is no folder. Make it, or name another.", where="--directory", file=str(directory))
    if folder.exists() or folder.is_symlink():
        raise UserError(
            "is there already, and nothing is overwritten. Choose another name or --directory, or move it "
            "away.",
            file=str(folder),
        )
    try:
        # Beside its place, so that one renaming puts all of it there.
        temporary = Path(tempfile.mkdtemp(prefix=f".{names.distribution}.", dir=directory))
        try:
            for path, content in _rendered(names).items():
                file = temporary / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content, encoding="utf-8")
            temporary.chmod(0o755)
            temporary.rename(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        raise UserError(
            f"the project cannot be written here: {error}. Choose another --directory.", file=str(folder)
        ) from error
    return folder


def _rendered(names: PluginNames) -> dict[str, str]:
    """Every file's content by its path."""
    from importlib.metadata import version

    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("unmask.scaffolding", "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # Python and TOML, not HTML
    )
    facts = {
        "distribution": names.distribution,
        "module": names.module,
        "class_name": names.class_name,
        "unmask_version": version("unmask"),
    }
    return {
        path.format(module=names.module): environment.get_template(f"{template}.j2").render(facts)
        for template, path in _FILES.items()
    }


def _refuse_taken(names: PluginNames) -> None:
    """Refuse a name that another plugin's attack bears: manifests could not tell the two apart."""
    from packaging.utils import canonicalize_name

    from unmask.plugins.catalog import catalog

    for provided in catalog().entries("attacks"):
        theirs = canonicalize_name(provided.distribution)
        if provided.name == names.distribution and theirs != names.distribution:
            raise UserError(
                f"there is an attack '{provided.name}' already, of {provided.provider}. Choose another "
                "name, such "
                f"as 'my-{names.distribution}'.",
                where="NAME",
            )


def _refuse_installed(names: PluginNames) -> None:
    """Refuse the name of another installed distribution, which would be replaced, or of a module of one."""
    from importlib import metadata
    from importlib.util import find_spec

    from unmask.plugins.catalog import KINDS, catalog

    try:
        ours = bool(metadata.distribution(names.distribution).entry_points.select(group="unmask"))
    except metadata.PackageNotFoundError:
        spec = find_spec(names.module)
        if spec is not None and spec.origin is not None:
            what = f"makes the module '{names.module}', which would hide the one that is installed"
        else:
            # Not installed, and yet in everybody's mind another thing.
            libraries = [library for kind in KINDS for library in catalog().of_libraries(kind)]
            theirs = next((one for one in libraries if names.module == one.module), None)
            if theirs is None:
                return
            what = f"is the library {theirs.name}"
    else:
        if ours:
            return  # the plugin itself, made and installed before
        what = "is a distribution that is installed, and installing the plugin would replace it"
    raise UserError(
        f"'{names.distribution}' {what}. Choose another name, such as 'my-{names.distribution}'.",
        where="NAME",
    )
