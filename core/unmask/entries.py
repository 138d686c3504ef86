"""What a hook returns: small frozen records that name a component and know how to build it.

Entries are light: importing this module, or a plugin's registration that only lists entries, loads neither
torch nor xarray. `build` may be the callable itself or text ``"package.module:attribute"``, which is
imported when first used.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from importlib.util import find_spec
from typing import Any, Literal

import attrs

from unmask.errors import UserError

__all__ = [
    "AttackEntry",
    "DataEntry",
    "EnsembleEntry",
    "Entry",
    "FrontEndEntry",
    "GradientEntry",
    "LazyBuilder",
    "Library",
    "MetricEntry",
    "ModelEntry",
    "RecipeEntry",
]

Access = Literal["gradients", "scores", "labels", "transfer"]
Search = Literal["within", "nearest"]


class LazyBuilder:
    """A callable named by ``"package.module:attribute"``, imported when it is first called or inspected."""

    def __init__(self, path: str) -> None:
        module, _, attribute = path.partition(":")
        if not module or not attribute:
            raise ValueError(f"'{path}' is not of the form 'package.module:attribute'")
        self.path = path
        self._module = module
        self._attribute = attribute

    def resolve(self) -> Callable[..., Any]:
        """The callable itself."""
        found: Any = importlib.import_module(self._module)
        for part in self._attribute.split("."):
            found = getattr(found, part)
        if not callable(found):
            raise TypeError(f"'{self.path}' is not callable")
        return found  # type: ignore[no-any-return]

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.resolve())

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Import it, then call it."""
        return self.resolve()(*arguments, **options)

    def __repr__(self) -> str:
        return f"LazyBuilder({self.path!r})"


@attrs.frozen
class Library:
    """Somebody else's Python library that a plugin gives access to, installed or not.

    Attributes:
        name: What stands before the colon in ``use = "foolbox:LinfPGD"``.
        module: What is imported.
        distribution: What it is installed as.
        install: The command that installs it.
    """

    name: str
    module: str
    distribution: str
    install: str

    @property
    def installed(self) -> bool:
        """Whether it can be imported, found out without importing it."""
        if self.module in sys.modules:
            return True
        try:
            return find_spec(self.module) is not None
        except (ImportError, ValueError):
            return False

    @property
    def version(self) -> str:
        """The installed version; ``""`` where there is none to tell."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return ""

    def needed(self, by: str) -> None:
        """Refuse to go on without it.

        Args:
            by: What needs it, such as ``'foolbox:LinfPGD'``.

        Raises:
            UserError: It is not installed; the message has the command that installs it.
        """
        if not self.installed:
            raise UserError(f"{by} needs {self.name}, which is not installed: {self.install}")

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()


def _as_builder(build: Callable[..., Any] | str) -> Callable[..., Any]:
    return LazyBuilder(build) if isinstance(build, str) else build


def _as_names(names: Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _is_name(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    if not isinstance(value, str) or not value or any(c.isspace() or c in ':/"' for c in value):
        raise ValueError(
            f"an entry's {attribute.name} is text without spaces, ':', '/' or quotes, not {value!r}"
        )


def _is_callable(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not callable(value):
        raise TypeError(f"an entry's {attribute.name} must be callable, not {value!r}")


@attrs.frozen
class Entry:
    """One component on offer.

    Attributes:
        name: What a manifest's ``use`` says.
        summary: One sentence for listings.
        reference: The paper, equation or standard it comes from.
        build: Callable whose signature is the component's options.
        library: The library whose component this is. It is then called ``library:name``, and by that alone.
    """

    name: str = attrs.field(validator=_is_name)
    summary: str = attrs.field(validator=attrs.validators.instance_of(str))
    reference: str = attrs.field(validator=attrs.validators.instance_of(str))
    build: Callable[..., Any] = attrs.field(converter=_as_builder, validator=_is_callable)
    library: Library | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class ModelEntry(Entry):
    """Builds an `nn.Module` from images in [0, 1], NCHW, to logits.

    Attributes:
        recipe: The training recipe used when the manifest names neither weights nor a recipe, as a table
            with ``use``; None for models that come with weights or need none.
    """

    recipe: Mapping[str, Any] | None = None


@attrs.frozen
class FrontEndEntry(Entry):
    """Builds an `nn.Module` from image to image that stands before a classifier.

    Attributes:
        stochastic: It draws random numbers at evaluation.
        differentiable: Gradients flow through it.
        surrogate: Differentiable stand-in for the backward pass, images to images; or text, as for `build`.
            None: the identity. A method ``surrogate(images)`` of what is built goes first.
        recipe: As for `ModelEntry`.
    """

    stochastic: bool = False
    differentiable: bool = True
    surrogate: Callable[..., Any] | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(_as_builder),
        validator=attrs.validators.optional(_is_callable),
    )
    recipe: Mapping[str, Any] | None = None


@attrs.frozen
class EnsembleEntry(Entry):
    """Builds a model from ``members`` (a list of modules, the first argument) and options."""


@attrs.frozen
class AttackEntry(Entry):
    """Builds an attack: a plain call, or an iterative one with `start` and `step`.

    Attributes:
        norms: The norms it can be run in.
        access: What it needs of the model: gradients, scores, labels, or another model (transfer).
        search: ``within`` a ball of given radius, or ``nearest`` adversarial example.
        targeted: It can drive an image towards a chosen class.
    """

    norms: tuple[str, ...] = attrs.field(default=("linf", "l2", "l1"), converter=_as_names)
    access: Access = attrs.field(
        default="gradients", validator=attrs.validators.in_(("gradients", "scores", "labels", "transfer"))
    )
    search: Search = attrs.field(default="within", validator=attrs.validators.in_(("within", "nearest")))
    targeted: bool = False


@attrs.frozen
class MetricEntry(Entry):
    """Builds a measurement, per sample or of a whole result.

    Attributes:
        unit: The unit, ``1`` for a fraction.
        dims: The dimensions of the result.
    """

    unit: str = "1"
    dims: tuple[str, ...] = attrs.field(default=(), converter=_as_names)


@attrs.frozen
class GradientEntry(Entry):
    """Builds a gradient source: where a search gets its direction from.

    Attributes:
        access: What it needs of the model.
    """

    access: Access = attrs.field(
        default="gradients", validator=attrs.validators.in_(("gradients", "scores", "labels", "transfer"))
    )


@attrs.frozen
class DataEntry(Entry):
    """Builds labelled images (`unmask.data.LabelledImages`).

    A build with an option ``split`` (``"train"`` or ``"test"``) can also feed training recipes.
    """


@attrs.frozen
class RecipeEntry(Entry):
    """Builds a training recipe: a callable that trains a model in place (`unmask.training.Recipe`)."""
