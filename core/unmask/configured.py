"""An attack with every option settled: what an evaluation runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
from torch import nn

from unmask.building import builder_of, find_component, split_use, wrongly_built
from unmask.entries import AttackEntry
from unmask.errors import MisuseError, UserError
from unmask.evaluation.task import IterativeAttack, Suite
from unmask.option_values import Place, convert, shown
from unmask.options import build_with, check_options
from unmask.plugins.catalog import Provided, catalog
from unmask.provenance import object_path, settings_of

__all__ = ["ConfiguredAttack", "as_configured", "configure_attack"]

_PARAMETERS = ("target", "images", "labels", "budget", "random")
_SHAPE = "an object with 'start' and 'step', or a function of target, images, labels, budget and random"


@attrs.frozen(eq=False, repr=False)
class ConfiguredAttack:
    """An attack with every option settled.

    An option annotated with this type takes a name, a table with ``use``, or such an object.

    Attributes:
        use: The registered name; the class or function for one that nobody registered.
        attack: A plain call, an object with `start` and `step`, or a suite.
        entry: What it says of itself.
        provider: ``distribution/entry-point``, with the library where it is one's; ``package.module:name``
            for one that nobody registered.
        options: Every option with its value, as JSON.
        max_queries: Most forward passes per sample; None: no limit of its own.
        timeout: Most seconds per cell; None: no limit of its own.
        targeted: Drive images towards a class instead of away from their label.
        target: That class, or one for every sample of the run.
    """

    use: str
    attack: Any
    entry: AttackEntry
    provider: str
    options: Mapping[str, Any]
    max_queries: int | None = None
    timeout: float | None = None
    targeted: bool = False
    target: int | tuple[int, ...] | None = None

    @property
    def access(self) -> str:
        """What it needs of the model: its gradient source's word, where it has one, else its entry's."""
        source = getattr(self.attack, "gradient", None)
        return str(getattr(source, "access", None) or self.entry.access)

    @property
    def gradient_name(self) -> str:
        """The registered name of its gradient source; ``""`` where it has none, or an unregistered one."""
        source = getattr(self.attack, "gradient", None)
        return "" if source is None else catalog().name_of("gradients", source)

    def table(self) -> dict[str, Any]:
        """The table that would build it again, as JSON."""
        common = {"max_queries": self.max_queries, "timeout": self.timeout, **self.aim()}
        return {"use": self.use, **self.options, **{k: v for k, v in common.items() if v is not None}}

    def __repr__(self) -> str:
        """What would build it again; the object's path for one that nobody registered."""
        if "/" not in self.provider:
            return f"<attack {self.provider}>"
        given = {key.replace("-", "_"): value for key, value in self.table().items() if key != "use"}
        said = "".join(f", {key}={_alone(value)!r}" for key, value in given.items())
        return f"unmask.attack({self.use!r}{said})"

    def _repr_html_(self) -> str:
        from unmask.reports.notebook import attack_html

        return attack_html(self)

    def aim(self) -> dict[str, Any]:
        """`targeted` and `target` as JSON; nothing for an untargeted attack."""
        if not self.targeted:
            return {}
        return {
            "targeted": True,
            "target": self.target if isinstance(self.target, int) else list(self.target or ()),
        }


def _alone(value: Any) -> Any:
    """The name alone of a table that has nothing but ``use``."""
    return value["use"] if isinstance(value, dict) and set(value) == {"use"} else value


def configure_attack(
    name: str, options: Mapping[str, Any], *, where: str, base: Path | None = None, hyphens: bool = True
) -> ConfiguredAttack:
    """An attack by its registered name; arguments as for `build_component`.

    Every attack also takes ``max-queries`` (per sample) and ``timeout`` (seconds per cell); one with a
    targeted mode also ``targeted`` and ``target``.
    """
    provided = find_component("attacks", name, where)
    build = builder_of(provided, where)
    own, common = {}, {}
    for key, value in options.items():
        option = key.replace("-", "_") if isinstance(key, str) else key
        if option not in _COMMON:
            own[key] = value
        elif option in common:
            raise UserError("is given twice, with a hyphen and with an underscore.", where=f"{where}.{key}")
        else:
            common[option] = _COMMON[option](value, Place(f"{where}.{key}", hyphens=hyphens))
    _check_aim(common, provided, where)
    values = check_options(build, own, where, base=base, hyphens=hyphens)
    built = build_with(build, values, where, hyphens=hyphens)
    if not _is_attack(built):
        raise wrongly_built(provided, f"an attack ({_SHAPE})", built, where)
    return attrs.evolve(_registered(provided, built, values), **common)


def as_configured(
    value: Any, where: str = "attack", *, base: Path | None = None, hyphens: bool = True
) -> ConfiguredAttack:
    """The attack meant by whatever `evaluate` accepts.

    Args:
        value: A `ConfiguredAttack`, a registered name, a table with ``use``, an attack object with `start`
            and `step`, or a function of target, images, labels, budget and random.
        where: Its key path, for messages.
        base: The folder that relative paths start from.
        hyphens: Messages spell options as in a manifest.

    Raises:
        UserError: The name, or an option, is wrong.
        MisuseError: It is none of these.
    """
    if isinstance(value, ConfiguredAttack):
        return value
    if isinstance(value, str):
        return configure_attack(value, {}, where=where, base=base, hyphens=hyphens)
    if isinstance(value, Mapping):
        name, options = split_use(value, where, "attacks")
        return configure_attack(name, options, where=where, base=base, hyphens=hyphens)
    if inspect.isclass(value):
        raise MisuseError(
            f"is the class {value.__name__}; give an attack made of it: {value.__name__}(...).", where=where
        )
    if not _is_attack(value):
        raise MisuseError(
            "must be the name of an attack, unmask.attack(...), a table with 'use', or an attack itself "
            f"({_SHAPE}), not {shown(value)}.",
            where=where,
        )
    provided = catalog().provided_of("attacks", value)
    if provided is not None:
        return _registered(provided, value, {})
    return _unregistered(value)


def _registered(provided: Provided, built: Any, given: Mapping[str, Any]) -> ConfiguredAttack:
    assert isinstance(provided.entry, AttackEntry)
    library = provided.entry.library
    return ConfiguredAttack(
        use=catalog().spelt("attacks", provided),
        attack=built,
        entry=provided.entry,
        # With the library's version: another one is another attack.
        provider=provided.provider if library is None else f"{provided.provider} ({library})",
        options=settings_of(provided.builder(), given, built),
    )


def _unregistered(attack_itself: Any) -> ConfiguredAttack:
    named = attack_itself if hasattr(attack_itself, "__name__") else type(attack_itself)
    use = "function" if named.__name__ == "<lambda>" else named.__name__
    said = {
        name: getattr(attack_itself, name)
        for name in ("norms", "access", "search", "targeted")
        if hasattr(attack_itself, name)
    }
    options = {}
    if attrs.has(type(attack_itself)):
        options = settings_of(type(attack_itself), {}, attack_itself)
    summary = (inspect.getdoc(attack_itself) or use).splitlines()[0]
    entry = AttackEntry(name=use, summary=summary, reference="", build=lambda: attack_itself, **said)
    return ConfiguredAttack(use, attack_itself, entry, object_path(attack_itself), options)


def _is_attack(thing: Any) -> bool:
    if inspect.isclass(thing) or isinstance(thing, nn.Module):
        return False
    if isinstance(thing, (IterativeAttack, Suite)):
        return True
    if not callable(thing):
        return False
    try:
        inspect.signature(thing).bind(*_PARAMETERS)
    except TypeError:
        return False
    except ValueError:  # a builtin that does not tell its signature
        return True
    return True


def _queries(value: Any, place: Place) -> int | None:
    if value is None:
        return None
    number = int(convert(value, int, place))
    if number < 1:
        raise UserError(f"must be at least 1, not {shown(value)}.", where=place.where)
    return number


def _seconds(value: Any, place: Place) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):  # an epsilon may be a fraction in text, a time may not
        raise MisuseError(f"must be a number of seconds, not {shown(value)}.", where=place.where)
    number = float(convert(value, float, place))
    if number <= 0:
        raise UserError(f"must be more than 0 seconds, not {shown(value)}.", where=place.where)
    return number


def _switch(value: Any, place: Place) -> bool:
    return bool(convert(value, bool, place))


def _target(value: Any, place: Place) -> int | tuple[int, ...] | None:
    if value is None:
        return None
    several = isinstance(value, list | tuple | range) or getattr(value, "shape", ()) != ()
    target: int | tuple[int, ...] = convert(value, tuple[int, ...] if several else int, place)
    for number in target if isinstance(target, tuple) else (target,):
        if number < 0:
            raise UserError(f"class indices start at 0, and {number} is below.", where=place.where)
    return target


_COMMON: Mapping[str, Callable[[Any, Place], Any]] = {
    "max_queries": _queries,
    "timeout": _seconds,
    "targeted": _switch,
    "target": _target,
}
"""Options that every attack takes."""


def _check_aim(common: Mapping[str, Any], provided: Provided, where: str) -> None:
    """Refuse half a target, and one for an attack that has no targeted mode."""
    targeted, target = common.get("targeted", False), common.get("target")
    if (targeted or target is not None) and not provided.entry.targeted:  # type: ignore[attr-defined]
        raise UserError(
            f"the attack '{provided.name}' cannot be targeted. Leave 'targeted' and 'target' out, or choose "
            "an attack that can: `unmask list attacks`.",
            where=where,
        )
    if targeted and target is None:
        raise UserError(
            "targeted needs a target: the index of the class to be reached.", where=f"{where}.target"
        )
    if target is not None and not targeted:
        raise UserError("a target needs targeted = true.", where=f"{where}.targeted")
