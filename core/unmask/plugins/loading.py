"""Finding plugins: every entry point of the group ``unmask`` is imported, examined and asked once.

A plugin is a module, or an object with hook methods. It is accepted whole or not at all: whatever goes wrong
with it, at import, registration or in a hook, becomes one `PluginFailure`, and everybody else is served.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from typing import Any

import attrs
import pluggy

from unmask import hookspecs
from unmask.crashes import CrashError, tried
from unmask.entries import (
    AttackEntry,
    DataEntry,
    EnsembleEntry,
    Entry,
    FrontEndEntry,
    GradientEntry,
    MetricEntry,
    ModelEntry,
    RecipeEntry,
)
from unmask.errors import PluginError, in_words, suggestion
from unmask.markers import PROJECT

__all__ = ["ENTRY_TYPES", "GROUP", "Candidate", "LoadedPlugins", "Plugin", "PluginFailure", "load_plugins"]

GROUP = "unmask"
"""The entry-point group a distribution offers plugins in."""

ENTRY_TYPES: Mapping[str, type[Entry]] = {
    "models": ModelEntry,
    "front-ends": FrontEndEntry,
    "ensembles": EnsembleEntry,
    "attacks": AttackEntry,
    "metrics": MetricEntry,
    "gradients": GradientEntry,
    "data": DataEntry,
    "recipes": RecipeEntry,
}
"""What the hook of each kind returns."""

_KERNELS = "unmask_kernels"
_HOOKS = {name for name in vars(hookspecs) if name.startswith("unmask_")}


@attrs.frozen
class Candidate:
    """A plugin that has been announced but not looked at.

    Attributes:
        distribution: The installed distribution that announces it.
        version: That distribution's version.
        entry_point: Its name within the distribution.
        value: What the entry point names, such as ``package.module:object``.
        load: Imports and returns the plugin.
    """

    distribution: str
    version: str
    entry_point: str
    value: str
    load: Callable[[], Any] = attrs.field(eq=False, repr=False)

    @property
    def name(self) -> str:
        """``distribution/entry-point``: what the plugin is registered as."""
        return f"{self.distribution}/{self.entry_point}"


@attrs.frozen
class Plugin:
    """A plugin in working order.

    Attributes:
        name: ``distribution/entry-point``.
        distribution: The distribution it comes from.
        version: That distribution's version.
        value: What its entry point names.
        offers: Its entries by kind.
        kernels: Gives its tensor kernels, where it has any; not called before they are needed.
    """

    name: str
    distribution: str
    version: str
    value: str
    offers: Mapping[str, tuple[Entry, ...]]
    kernels: Callable[[], Any] | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class PluginFailure:
    """A plugin that could not be used, and why.

    Attributes:
        name: ``distribution/entry-point``.
        distribution: The distribution it comes from.
        version: That distribution's version.
        cause: What went wrong, in one line.
    """

    name: str
    distribution: str
    version: str
    cause: str

    def __str__(self) -> str:
        return f"plugin {self.name} (version {self.version}) failed to load: {self.cause}"


@attrs.frozen
class LoadedPlugins:
    """Every announced plugin, in working order or not."""

    plugins: tuple[Plugin, ...]
    failures: tuple[PluginFailure, ...]


def installed_candidates() -> list[Candidate]:
    """What installed distributions announce: Unmask's own first, then by name."""
    candidates = []
    for point in metadata.entry_points(group=GROUP):
        distribution = point.dist.name if point.dist is not None else "unknown"
        version = point.dist.version if point.dist is not None else "unknown"
        candidates.append(Candidate(distribution, version, point.name, point.value, point.load))
    return sorted(candidates, key=lambda c: (c.distribution != PROJECT, c.name))


def load_plugins(candidates: Iterable[Candidate] | None = None) -> LoadedPlugins:
    """Import, examine and ask every candidate; None: the installed ones. A plugin's fault never raises."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    plugins: list[Plugin] = []
    failures: list[PluginFailure] = []
    for candidate in installed_candidates() if candidates is None else candidates:
        try:
            with tried({"plugin": candidate.name, "distribution": candidate.distribution}):
                plugins.append(_load_one(manager, candidate))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plugin may do anything when imported, SystemExit included
            # A name taken before was announced twice: the first one stays.
            if candidate.name not in {plugin.name for plugin in plugins}:
                manager.unregister(name=candidate.name)
            failures.append(
                PluginFailure(candidate.name, candidate.distribution, candidate.version, describe(error))
            )
    return LoadedPlugins(tuple(plugins), tuple(failures))


def describe(error: BaseException) -> str:
    """An exception in one line: our own messages as they are, others after the name of their type."""
    own = isinstance(error, PluginError | CrashError)
    return " ".join((str(error) if own else in_words(error)).split())


def _load_one(manager: pluggy.PluginManager, candidate: Candidate) -> Plugin:
    if manager.has_plugin(candidate.name):
        raise PluginError(f"the entry point '{candidate.name}' is declared twice.")
    plugin = candidate.load()
    if inspect.isclass(plugin):
        raise PluginError(
            f"'{candidate.value}' is a class; an entry point names a module or an object: name an instance."
        )
    hooks = list(_hooks(manager, plugin))
    if not hooks:
        raise PluginError(
            f"'{candidate.value}' has no hook: define functions such as unmask_attacks, "
            "decorated with @unmask.hookimpl."
        )
    _register(manager, plugin, candidate.name)
    implementations = {
        hook: implementation.function
        for hook in hooks
        for implementation in getattr(manager.hook, hook).get_hookimpls()
        if implementation.plugin_name == candidate.name
    }
    offers = {}
    for kind, entry_type in ENTRY_TYPES.items():
        hook = "unmask_" + kind.replace("-", "_")
        if hook in implementations:
            offers[kind] = tuple(_entries(hook, implementations[hook], entry_type))
    return Plugin(
        name=candidate.name,
        distribution=candidate.distribution,
        version=candidate.version,
        value=candidate.value,
        offers=offers,
        kernels=implementations.get(_KERNELS),
    )


def _hooks(manager: pluggy.PluginManager, plugin: Any) -> Iterator[str]:
    """The hooks a plugin implements.

    Raises:
        PluginError: One is misspelt, lacks its decorator, takes arguments or wraps other plugins' hooks.
    """
    for name in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, name)
        function = inspect.getattr_static(plugin, name, None) if options is None else getattr(plugin, name)
        if options is None:
            if name in _HOOKS and isinstance(function, types.FunctionType):
                raise PluginError(f"'{name}' is not marked as a hook: decorate it with @unmask.hookimpl.")
            continue
        hook = options.get("specname") or name
        if hook not in _HOOKS:
            raise PluginError(f"there is no hook '{hook}'. {_suggest_hook(hook)}")
        if options.get("wrapper") or options.get("hookwrapper"):
            raise PluginError(f"the hook '{hook}' is declared a wrapper; hooks of Unmask are not wrapped.")
        if parameters := list(inspect.signature(function).parameters):
            listing = ", ".join(parameters)
            raise PluginError(f"the hook '{hook}' takes arguments ({listing}); hooks take none.")
        yield hook


def _suggest_hook(hook: str) -> str:
    # `suggestion` compares hyphenated spellings; hooks are written with underscores.
    by_spelling = suggestion(hook, (name.replace("_", "-") for name in _HOOKS))
    return by_spelling.replace("-", "_")


def _register(manager: pluggy.PluginManager, plugin: Any, name: str) -> None:
    other = manager.get_name(plugin)
    if other is not None:
        raise PluginError(f"names the same object as '{other}'; one entry point is enough.")
    manager.register(plugin, name=name)
    manager.check_pending()


def _entries(hook: str, function: Callable[[], Any], entry_type: type[Entry]) -> Iterator[Entry]:
    found = function()
    if isinstance(found, str | bytes | Mapping | Entry) or not isinstance(found, Iterable):
        raise PluginError(
            f"the hook '{hook}' must return an iterable of {entry_type.__name__}, not {type(found).__name__}."
        )
    seen = set()
    for entry in found:
        if not isinstance(entry, entry_type):
            raise PluginError(
                f"the hook '{hook}' must return entries of type {entry_type.__name__}, "
                f"not {type(entry).__name__} ({entry!r:.80})."
            )
        # Two libraries may call different things by one name.
        name = entry.name if entry.library is None else f"{entry.library.name}:{entry.name}"
        if name in seen:
            raise PluginError(f"the hook '{hook}' offers '{name}' twice.")
        seen.add(name)
        yield entry
