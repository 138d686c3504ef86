"""From a registered name to the tests of that component."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unmask.entries import AttackEntry
from unmask.errors import PluginError, UserError, suggestion
from unmask.evaluation.threat import NORMS
from unmask.models.reference import ModelReference, ModelSelection
from unmask.options import check_options, describe_options
from unmask.plugins.catalog import KINDS, Catalog, Provided, catalog, kind_named, singular, using
from unmask.testing import (
    data,
    ensembles,
    front_ends,
    gradients,
    metrics,
    models,
    recipes,
    registration,
)
from unmask.testing.attacks import CHECKS as ATTACK_CHECKS
from unmask.testing.attacks.declaration import CHECKS as DECLARATION_CHECKS
from unmask.testing.attacks.setting import AttackSubject
from unmask.testing.laws import LawBroken
from unmask.testing.subject import Check, Subject

__all__ = ["conformance"]

_OF_ITS_KIND: Mapping[str, tuple[Check, ...]] = {
    "models": models.CHECKS,
    "front-ends": front_ends.CHECKS,
    "ensembles": ensembles.CHECKS,
    "attacks": DECLARATION_CHECKS,
    "metrics": metrics.CHECKS,
    "gradients": gradients.CHECKS,
    "data": data.CHECKS,
    "recipes": recipes.CHECKS,
}


def conformance(
    name: str,
    *,
    kind: str | None = None,
    options: Mapping[str, Any] | None = None,
    norms: Sequence[str] | None = None,
    image: tuple[int, int, int] = (3, 16, 16),
    members: int = 2,
    label: str = "",
) -> dict[str, Callable[[], None]]:
    """The tests that a component must pass, as functions without arguments that pytest can collect.

    Args:
        name: A registered name, or ``distribution:name``.
        kind: Such as ``attack`` or ``front-end``, where components of several kinds bear the name.
        options: What it is tested with. The costly options of the usual names (``steps``, ``restarts``,
            ``queries``, ``targets``; ``epochs``, ``updates``, ``batch``) are small unless given here. Another
            model that an attack must be told is called ``model``.
        norms: Norms that an attack is tested in; all that it declares when None.
        image: Shape of the images for models, front ends and ensembles, (channel, height, width).
        members: How many members an ensemble is made of.
        label: Added to the names of the tests, so that one component can be tested with several options.

    Returns:
        Functions by name, for ``globals().update(...)``. One that fails raises `LawBroken`.

    Raises:
        UserError: Nothing, or more than one thing, bears the name; an option does not exist or is missing;
            the attack does not declare the norm.
    """
    provided, kind = _found(name, kind)
    chosen = {key.replace("-", "_"): value for key, value in (options or {}).items()}
    _refuse_wrong_options(provided, kind, chosen)
    subject = Subject(kind, provided, chosen, image, members)
    tests: dict[str, Callable[[], None]] = {}
    for check in (*registration.CHECKS, *_OF_ITS_KIND[kind]):
        _add(tests, subject, check, label)
    for norm in _norms(provided, norms, f"conformance({name!r})"):
        in_norm = AttackSubject(kind, provided, chosen, image, members, norm)
        for check in ATTACK_CHECKS:
            _add(tests, in_norm, check, label)
    return tests


def _add(tests: dict[str, Callable[[], None]], subject: Subject, check: Check, label: str) -> None:
    parts = ["test", subject.slug, *([label.replace("-", "_")] if label else []), check.__name__]
    test = _test(subject, check, catalog())
    test.__name__ = test.__qualname__ = "_".join(parts)
    tests[test.__name__] = test


def _test(subject: Subject, check: Check, installed: Catalog) -> Callable[[], None]:
    law = (inspect.getdoc(check) or "").splitlines()[0]

    def test() -> None:
        __tracebackhide__ = True
        with using(installed):
            try:
                check(subject)
            except LawBroken as broken:
                raise broken.of(law, subject.shown) from broken.__cause__
            except Exception as error:
                found = f"it raised {type(error).__name__}: {error}"
                remedy = "The exception above, from which this one was raised, shows where."
                raise LawBroken(found, remedy, law=law, entry=subject.shown) from error

    test.__doc__, test.__module__ = law, __name__
    return test


def _found(name: str, kind: str | None) -> tuple[Provided, str]:
    installed = catalog()
    if kind is not None:
        kind = kind_named(kind)
        return installed.find(kind, name), kind
    fitting: list[tuple[Provided, str]] = []
    unclear: PluginError | None = None
    for each in KINDS:
        try:
            fitting.append((installed.find(each, name), each))
        except PluginError as error:
            unclear = error
        except UserError:
            continue
    if len(fitting) > 1:
        kinds = [singular(each) for _, each in fitting]
        said = " or ".join(f'kind="{each}"' for each in kinds)
        raise UserError(f"'{name}' names a {' and a '.join(kinds)}; say {said}.", where="conformance")
    if fitting:
        return fitting[0]
    if unclear is not None:
        raise unclear
    on_offer = {p.name for each in KINDS for p in installed.entries(each)}
    failures = "".join(f" It may belong to a plugin that does not work: {f}." for f in installed.failures)
    raise UserError(
        f"nothing is registered as '{name}'. Is the plugin installed (`pip install -e .`)? "
        f"{suggestion(name, on_offer)}{failures}",
        where="conformance",
    )


def _refuse_wrong_options(provided: Provided, kind: str, options: Mapping[str, Any]) -> None:
    skip = ("members",) if kind == "ensembles" else ()
    build = provided.builder()
    given = dict(options)
    for option in describe_options(build, skip=skip):
        if option.required and option.annotation in (ModelReference, ModelSelection):
            given.setdefault(option.parameter, "model")
    if kind == "attacks":
        for common in ("max_queries", "timeout", "targeted", "target"):
            given.pop(common, None)
    check_options(build, given, f'conformance("{provided.name}", options=...)', skip=skip, hyphens=False)


def _norms(provided: Provided, norms: Sequence[str] | None, where: str) -> tuple[str, ...]:
    if not isinstance(provided.entry, AttackEntry):
        return ()
    declared = provided.entry.norms
    if norms is None:
        return tuple(norm for norm in declared if norm in NORMS)
    for norm in norms:
        if norm not in declared:
            raise UserError(
                f"it does not declare the norm '{norm}'. {suggestion(norm, declared)}", where=where
            )
    return tuple(norms)
