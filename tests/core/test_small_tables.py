"""What the miniatures of the paper's tables are held to is broken by results that say otherwise."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import xarray as xr

MODELS = ("backbone", "backbone+front", "backbone+front 4x", "adversarial")
# Right answers of twenty: clean, then under each attack; NaN where an attack does not apply.
PAPER = {
    "backbone": (20, 0, None, 0, 0),
    "backbone+front": (20, 15, 0, 2, 14),
    "backbone+front 4x": (20, 18, 0, 9, 16),
    "adversarial": (19, 11, None, 11, 11),
}
ATTACKS = ("pgd", "bpda-pgd", "square", "zero-order-pgd")


@pytest.fixture(scope="module")
def check() -> ModuleType:
    file = Path(__file__).parents[2] / ".ci" / "small_tables.py"
    spec = importlib.util.spec_from_file_location("small_tables", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def made(make_results: Callable[..., xr.Dataset]) -> Callable[..., xr.Dataset]:
    def make(**changes: tuple[int | None, ...]) -> xr.Dataset:
        counts = {**PAPER, **{key.replace("_", "+"): value for key, value in changes.items()}}

        def right(n: int) -> list[float]:
            return [float(i < n) for i in range(20)]

        kinds = ("pgd", "bpda", "square", "zero-order")
        results = make_results(
            {model: right(counts[model][0] or 0) for model in MODELS},
            {
                (model, kind, 0.2): right(n if n is not None else counts[model][1] or 0)
                for model in MODELS
                for kind, n in zip(kinds, counts[model][1:], strict=True)
            },
        )
        names = dict(zip(kinds, ATTACKS, strict=True))
        return results.assign_coords(attack=[names[str(a)] for a in results["attack"].values])

    return make


def broken(check: ModuleType, results: xr.Dataset) -> list[str]:
    return [law for law, kept in check.laws(results) if not kept]


def test_what_the_paper_found_keeps_every_law(check: ModuleType, made: Callable[..., xr.Dataset]) -> None:
    found = list(check.laws(made()))
    assert all(kept for _, kept in found), found
    assert len(found) == 10


@pytest.mark.parametrize(
    ("counts", "word"),
    [
        ((19, 15, 0, 2, 14), "clean"),
        ((20, 7, 0, 2, 7), "40 points above BPDA"),
        ((20, 15, 0, 6, 14), "20 points above the single"),
        ((20, 18, 0, 2, 18), "no less than the single"),
    ],
)
def test_each_law_can_be_broken(
    check: ModuleType, made: Callable[..., xr.Dataset], counts: tuple[int, ...], word: str
) -> None:
    laws = broken(check, made(backbone_front=counts))
    assert [law for law in laws if word in law], laws


def test_masked_where_it_may_not_be_and_not_where_it_must(
    check: ModuleType, made: Callable[..., xr.Dataset]
) -> None:
    assert any(
        "adversarial: the verdict is masked" in law
        for law in broken(check, made(adversarial=(19, 18, 0, 0, 0)))
    )
    honest = broken(check, made(backbone_front=(20, 0, 0, 0, 0)))
    assert any("backbone+front: the verdict is" in law for law in honest), honest
