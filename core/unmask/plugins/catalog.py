"""What is on offer: every component by kind and name, whoever provides it."""

from __future__ import annotations

import inspect
import threading
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
from packaging.utils import canonicalize_name

from unmask.entries import Entry, LazyBuilder, Library
from unmask.errors import PluginError, UserError, nearest, suggestion
from unmask.plugins.loading import (
    ENTRY_TYPES,
    Candidate,
    LoadedPlugins,
    Plugin,
    PluginFailure,
    describe,
    load_plugins,
)

__all__ = ["KINDS", "Catalog", "Provided", "catalog", "kind_named", "singular", "using"]

KINDS: tuple[str, ...] = tuple(ENTRY_TYPES)
"""The kinds of component, as listings name them."""


@attrs.frozen
class Provided:
    """An entry and who provides it.

    Attributes:
        entry: The component on offer.
        provider: ``distribution/entry-point``.
        distribution: The distribution it comes from.
        version: That distribution's version.
    """

    entry: Entry
    provider: str
    distribution: str
    version: str

    @property
    def name(self) -> str:
        """The registered name."""
        return self.entry.name

    @property
    def qualified_name(self) -> str:
        """``distribution:name``, or ``library:name``; stays clear when others offer the same name."""
        library = self.entry.library
        return f"{self.distribution if library is None else library.name}:{self.entry.name}"

    def builder(self) -> Any:
        """The callable that builds the component, imported.

        Raises:
            UserError: It belongs to a library that is not installed.
            PluginError: It cannot be imported.
        """
        if self.entry.library is not None:
            self.entry.library.needed(f"'{self.qualified_name}'")
        build = self.entry.build
        if not isinstance(build, LazyBuilder):
            return build
        try:
            return build.resolve()
        except UserError:
            raise
        except Exception as error:
            raise PluginError(
                f"'{self.name}' of plugin {self.provider} (version {self.version}) cannot be imported from "
                f"'{build.path}': {describe(error)}"
            ) from error


def singular(kind: str) -> str:
    """``attacks`` to ``attack``, for messages."""
    return kind if kind == "data" else kind.removesuffix("s")


def kind_named(text: str) -> str:
    """The kind meant by a plural, a singular or a spelling with underscores.

    Raises:
        UserError: There is no such kind.
    """
    wanted = text.lower().replace("_", "-")
    for kind in KINDS:
        if wanted in (kind, singular(kind)):
            return kind
    raise UserError(f"there is no kind of component '{text}'. {suggestion(text, KINDS)}")


class Catalog:
    """Every component of every working plugin, and the plugins that do not work.

    Args:
        loaded: What `load_plugins` found.
    """

    def __init__(self, loaded: LoadedPlugins) -> None:
        self._loaded = loaded
        self._kernels: Any = None
        self._provided: dict[str, tuple[Provided, ...]] = {
            kind: tuple(
                Provided(entry, plugin.name, plugin.distribution, plugin.version)
                for plugin in loaded.plugins
                for entry in plugin.offers.get(kind, ())
            )
            for kind in KINDS
        }

    @classmethod
    def installed(cls) -> Catalog:
        """The catalog of what is installed."""
        return cls(load_plugins())

    @classmethod
    def from_plugins(cls, plugins: Mapping[str, Any]) -> Catalog:
        """A catalog of these plugins alone, by ``distribution/entry-point``; all have version ``0``."""
        candidates = []
        for name, plugin in plugins.items():
            distribution, _, point = name.partition("/")
            value = getattr(plugin, "__name__", type(plugin).__name__)
            candidates.append(Candidate(distribution, "0", point or "plugin", value, lambda p=plugin: p))  # type: ignore[misc]
        return cls(load_plugins(candidates))

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The plugins in working order."""
        return self._loaded.plugins

    @property
    def failures(self) -> tuple[PluginFailure, ...]:
        """The plugins that are not."""
        return self._loaded.failures

    def entries(self, kind: str) -> tuple[Provided, ...]:
        """Everything on offer of one kind under a name of its own, by name, then provider."""
        found = [p for p in self._provided[kind_named(kind)] if p.entry.library is None]
        return tuple(sorted(found, key=lambda provided: (provided.name, provided.provider)))

    def of_libraries(self, kind: str) -> Mapping[Library, tuple[Provided, ...]]:
        """What plugins offer out of other libraries, installed or not, by library and name."""
        found: dict[Library, list[Provided]] = {}
        for provided in self._provided[kind_named(kind)]:
            if provided.entry.library is not None:
                found.setdefault(provided.entry.library, []).append(provided)
        return {
            library: tuple(sorted(found[library], key=lambda provided: provided.name.lower()))
            for library in sorted(found, key=lambda library: library.name)
        }

    def is_ambiguous(self, kind: str, name: str) -> bool:
        """Whether several plugins offer this name."""
        offered = self._provided[kind_named(kind)]
        return sum(provided.name == name and provided.entry.library is None for provided in offered) > 1

    def spelt(self, kind: str, provided: Provided) -> str:
        """The shortest name that means this component and no other."""
        qualified = provided.entry.library is not None or self.is_ambiguous(kind, provided.name)
        return provided.qualified_name if qualified else provided.name

    def find(self, kind: str, name: str) -> Provided:
        """The one component meant by a name, ``distribution:name`` or ``distribution/entry-point:name``.

        What belongs to a library is found by ``library:name`` alone.

        Raises:
            UserError: Nobody offers it; the message has the nearest name and the plugins that failed.
            PluginError: Several plugins offer it and the name does not say which.
        """
        kind = kind_named(kind)
        scope, _, plain = name.rpartition(":")
        found = [p for p in self._provided[kind] if p.name == plain and _is_from(p, scope)]
        if len(found) == 1:
            return found[0]
        if not found:
            raise UserError(self._unknown(kind, scope, plain))
        clear = len({p.qualified_name for p in found}) == len(found)
        ways = [f"'{p.qualified_name}'" if clear else f"'{p.provider}:{p.name}'" for p in found]
        providers = " and ".join(f"{p.provider} (version {p.version})" for p in found)
        raise PluginError(
            f"the {singular(kind)} '{plain}' is offered by {providers}; write {' or '.join(ways)}."
        )

    def _unknown(self, kind: str, scope: str, plain: str) -> str:
        on_offer = [p for p in self._provided[kind] if _is_from(p, scope)]
        who = f"'{scope}' offers no" if scope else "there is no"
        text = f"{who} {singular(kind)} '{plain}'. {suggestion(plain, {p.name for p in on_offer})}"
        if scope and not on_offer:
            scopes = {p.qualified_name.partition(":")[0] for p in self._provided[kind]}
            close = nearest(scope, scopes)
            text += f" Who offers it: {', '.join(sorted(scopes))}."
            text += f" Did you mean '{close}:{plain}'?" if close else ""
        if not scope:
            others = [p.qualified_name for p in self._provided[kind] if p.name == plain and p.entry.library]
            text += f" Of other libraries: {', '.join(sorted(others))}." if others else ""
        if self.failures:
            causes = "; ".join(str(failure).rstrip(".") for failure in self.failures)
            text += f" It may belong to a plugin that does not work: {causes}."
        return text

    def name_of(self, kind: str, component: Any) -> str:
        """The name a built component is registered under, or ``""``.

        A component is known by its class: an entry builds it if its builder is that class, or a function
        annotated as returning it. ``distribution:name`` where the name alone would be ambiguous.
        """
        found = self.provided_of(kind, component)
        return "" if found is None else self.spelt(kind, found)

    def provided_of(self, kind: str, component: Any) -> Provided | None:
        """The entry a built component comes from, found as in `name_of`; None when no one entry fits.

        Components of libraries are not told apart by their class, and no library is imported to look.
        """
        made_by = type(component)
        on_offer = self.entries(kind)
        path = f"{made_by.__module__}:{made_by.__qualname__}"
        # Text first, which imports nothing.
        found = [p for p in on_offer if isinstance(p.entry.build, LazyBuilder) and p.entry.build.path == path]
        if not found:
            builders = [(p, build) for p in on_offer if (build := _quietly_imported(p)) is not None]
            found = [p for p, build in builders if build is made_by]
            if not found:
                found = [p for p, build in builders if _returns(build) is made_by]
        return found[0] if len(found) == 1 else None

    def kernels(self) -> Any:
        """The tensor kernels (`unmask.kernels.Kernels`) of the plugin that was loaded last and has some.

        Raises:
            PluginError: No plugin gives any.
        """
        if self._kernels is not None:
            return self._kernels
        causes = [str(failure) for failure in self.failures]
        for plugin in reversed(self.plugins):
            if plugin.kernels is None:
                continue
            try:
                self._kernels = plugin.kernels()
            except Exception as error:
                told = describe(error).rstrip(".")
                causes.append(f"plugin {plugin.name}: its hook unmask_kernels failed: {told}")
            if self._kernels is not None:
                return self._kernels
        raise PluginError(
            "no plugin gives the tensor kernels that evaluations compute with (hook unmask_kernels). "
            + ("; ".join(causes) + "." if causes else "Reinstall unmask: its own plugin is not installed.")
        )


def _is_from(provided: Provided, scope: str) -> bool:
    """Whether the part of a name before the colon, which may be empty, means this component's origin."""
    library = provided.entry.library
    if not scope:
        return library is None
    origin = provided.distribution if library is None else library.name
    return scope == provided.provider or canonicalize_name(scope) == canonicalize_name(origin)


def _quietly_imported(provided: Provided) -> Any:
    try:
        return provided.builder()
    except PluginError:
        return None  # it cannot have built anything


def _returns(build: Any) -> Any:
    if not inspect.isroutine(build):
        return None
    try:
        return typing.get_type_hints(build).get("return")
    except (NameError, TypeError, AttributeError):
        return None


_lock = threading.RLock()
_installed: Catalog | None = None
_substitutes: list[Catalog] = []


def catalog() -> Catalog:
    """The catalog in use: what is installed, found when first asked for, unless `using` another."""
    global _installed
    with _lock:
        if _substitutes:
            return _substitutes[-1]
        if _installed is None:
            _installed = Catalog.installed()
        return _installed


@contextmanager
def using(other: Catalog) -> Iterator[Catalog]:
    """Within this block, in every thread, `catalog()` is `other`."""
    with _lock:
        _substitutes.append(other)
    try:
        yield other
    finally:
        with _lock:
            _substitutes.remove(other)
