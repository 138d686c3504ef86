"""Options: the signature is the contract."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask.entries import LazyBuilder
from unmask.errors import MisuseError, UserError
from unmask.manifest.location import working_from
from unmask.option_types import ExtendedFloat
from unmask.option_values import exact_float
from unmask.options import build_with, check_options, describe_options

if TYPE_CHECKING:
    from nowhere import Mystery


@attrs.frozen
class Search:
    """A search.

    Attributes:
        steps: How often
            it steps.
        rate: Size of a step, in units
            of epsilon: a fraction.
        loss: What it climbs.
    """

    steps: int = attrs.field(default=10, validator=attrs.validators.ge(1))
    rate: float | None = None
    loss: Literal["ce", "margin", "dlr"] = "ce"
    restarts_at_most: int = 1
    sizes: tuple[int, ...] = attrs.field(factory=lambda: (3, 5))


def everything(
    path: Path,
    *,
    flag: bool = False,
    size: float = 1.0,
    label: str = "",
    limit: ExtendedFloat = math.inf,
    weights: list[float] = [],  # noqa: B006 - never changed
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0),
    sizes: Sequence[int] = (),
    named: Mapping[str, int] = {},
    choice: Literal["auto", 3] | float = "auto",
    either: int | str = 0,
    function: Callable[[int], int] | None = None,
    mystery: Mystery | None = None,
    untyped=None,  # type: ignore[no-untyped-def]
) -> dict[str, Any]:
    """Take everything.

    Args:
        path: Where it lies.
        flag (bool): Whether.

    Raises:
        path: never a help text.
    """
    return {}


def one(build: Callable[..., Any], key: str, value: Any, **more: Any) -> Any:
    return check_options(build, {key: value}, "attacks.a", **more)[key.replace("-", "_")]


def refusal(build: Callable[..., Any], raw: dict[str, Any], **more: Any) -> UserError:
    with pytest.raises(UserError) as caught:
        check_options(build, raw, "attacks.a", **more)
    return caught.value


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8/255", 8 / 255),
        (" 1 / 3 ", 1 / 3),
        ("0.1", 0.1),
        ("1e-3", 1e-3),
        ("-2", -2.0),
        (".5/2", 0.25),
        ("1e-2/4", 0.0025),
        ("0", 0.0),
    ],
)
def test_fractions_are_exact(text: str, number: float) -> None:
    assert exact_float(text) == number
    assert one(Search, "rate", text) == number


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**6))
def test_a_fraction_is_the_quotient_python_computes(above: int, below: int) -> None:
    assert exact_float(f"{above}/{below}") == above / below


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_written_out_is_read_back(number: float) -> None:
    assert exact_float(repr(number)) == exact_float(number) == number


@pytest.mark.parametrize(
    "text",
    ["", "eight", "8/", "/255", "8//255", "1/0", "1e999", "nan", "inf", "1e99999999", "0x10", "8/255/2", "٣"],
)
def test_text_that_is_no_finite_number_is_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        exact_float(text, "epsilons[0]")
    assert repr(text) in str(caught.value) and "epsilons[0]" in str(caught.value)


@pytest.mark.parametrize("value", [True, None, [1.0], {}, 1j])
def test_what_is_neither_number_nor_text_is_a_misuse(value: Any) -> None:
    with pytest.raises(MisuseError, match="number"):
        exact_float(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_numbers_that_are_not_finite_are_refused_unless_asked_for(value: float) -> None:
    assert "finite" in str(refusal(everything, {"path": "x", "size": value}))


def test_infinity_is_accepted_where_it_is_asked_for_and_nan_never() -> None:
    for value in (math.inf, "inf", "Infinity"[:3], np.float64("inf")):
        assert check_options(everything, {"path": "x", "limit": value})["limit"] == math.inf
    assert check_options(everything, {"path": "x", "limit": "1/4"})["limit"] == 0.25
    assert "finite" in str(refusal(everything, {"path": "x", "limit": math.nan}))


@pytest.mark.parametrize(
    ("key", "value", "converted"),
    [
        ("flag", np.bool_(True), True),
        ("size", 2, 2.0),
        ("size", np.float32(0.5), 0.5),
        ("size", torch.tensor(0.5), 0.5),
        ("label", "x", "x"),
        ("weights", ["1/2", 1], [0.5, 1.0]),
        ("weights", np.array([0.5, 1.0]), [0.5, 1.0]),
        ("mean", [0, "1/4", 1.0], (0.0, 0.25, 1.0)),
        ("sizes", [1, 2], (1, 2)),
        ("named", {"a": np.int64(1)}, {"a": 1}),
        ("choice", "auto", "auto"),
        ("choice", 3, 3),
        ("choice", "1/2", 0.5),
        ("either", "8", "8"),
        ("either", 8, 8),
        ("function", abs, abs),
        ("function", None, None),
        ("mystery", object, object),
        ("untyped", {"any": "thing"}, {"any": "thing"}),
    ],
)
def test_values_are_converted(key: str, value: Any, converted: Any) -> None:
    found = check_options(everything, {"path": "x", key: value})[key]
    assert found == converted and type(found) is type(converted)


@pytest.mark.parametrize(
    ("key", "value", "place", "said"),
    [
        ("flag", 1, "flag", "must be true or false, not 1."),
        ("flag", "yes", "flag", "must be true or false, not 'yes'."),
        ("label", 3, "label", "must be text, not 3."),
        ("path", 3, "path", "must be a path, not 3."),
        ("size", "big", "size", "'big' is not a number or a fraction such as '8/255'."),
        ("weights", "1,2", "weights", "must be a list, not '1,2'."),
        ("weights", [1, "x"], "weights[1]", "'x' is not a number"),
        ("mean", [1, 2], "mean", "must have 3 values, not 2: [1, 2]."),
        ("named", {"a": 1.5}, "named.a", "must be a whole number, not 1.5."),
        ("choice", "atuo", "choice", "must be one of 'auto', 3 or number, not 'atuo'."),
        ("either", 1.5, "either", "must be whole number or text, not 1.5."),
        ("function", 3, "function", "must be a function, not 3."),
    ],
)
def test_wrong_values_are_refused_in_words(key: str, value: Any, place: str, said: str) -> None:
    error = refusal(everything, {"path": "x", key: value})
    assert error.where == f"attacks.a.{place}"
    assert said in error.message


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (True, "whole number, not True"),
        (5.0, "write 5, not 5.0"),
        (2.5, "whole number, not 2.5"),
        ("5", "not '5'"),
        (None, "not None"),
    ],
)
def test_whole_numbers_are_whole(value: Any, said: str) -> None:
    error = refusal(Search, {"steps": value})
    assert isinstance(error, MisuseError) and said in str(error)


def test_whole_numbers_of_numpy_are_accepted() -> None:
    found = one(Search, "steps", np.int64(7))
    assert found == 7 and type(found) is int


def test_a_choice_names_the_nearest() -> None:
    error = refusal(Search, {"loss": "margni"})
    assert (
        str(error)
        == "attacks.a.loss: must be one of 'ce', 'margin', 'dlr', not 'margni'. Did you mean 'margin'?"
    )


def test_keys_may_have_hyphens_or_underscores_but_not_both() -> None:
    assert one(Search, "restarts-at-most", 4) == one(Search, "restarts_at_most", 4) == 4
    assert "given twice" in str(refusal(Search, {"restarts-at-most": 4, "restarts_at_most": 4}))


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    error = refusal(Search, {"restart-at-most": 1})
    assert error.where == "attacks.a"
    assert "no option 'restart-at-most'. Did you mean 'restarts-at-most'? Known: loss, rate," in error.message
    error = refusal(Search, {"restart_at_most": 1}, hyphens=False)
    assert "Did you mean 'restarts_at_most'?" in error.message
    assert "It takes no options" in refusal(lambda: None, {"steps": 1}).message


def test_a_missing_option_is_named_with_its_type() -> None:
    assert str(refusal(everything, {})) == "attacks.a: needs the option 'path' (path)."


def test_relative_paths_start_from_the_given_folder(tmp_path: Path) -> None:
    assert one(everything, "path", "a/b.npz", base=tmp_path) == tmp_path / "a/b.npz"
    assert one(everything, "path", tmp_path / "c", base=Path("/elsewhere")) == tmp_path / "c"
    assert one(everything, "path", "a") == Path.cwd() / "a"
    with working_from(tmp_path):
        assert one(everything, "path", "a") == tmp_path.resolve() / "a"


def test_a_builder_that_takes_everything_gets_everything() -> None:
    def passing(name: str, **options: Any) -> dict[str, Any]:
        return options

    checked = check_options(passing, {"name": "x", "drop-rate": 0.1, "deep": [1]})
    assert checked == {"name": "x", "drop_rate": 0.1, "deep": [1]}


def test_what_the_builder_refuses_is_placed_at_the_option() -> None:
    with pytest.raises(UserError) as caught:
        build_with(Search, check_options(Search, {"steps": 0}), "attacks.a")
    assert caught.value.where == "attacks.a.steps" and "must be >= 1" in caught.value.message


@pytest.mark.parametrize(
    ("raised", "kind", "place"),
    [
        (ValueError("too small"), UserError, "models.m"),
        (ValueError("'depth' must be odd"), UserError, "models.m.depth"),
        (TypeError("'depth' is odd"), MisuseError, "models.m.depth"),
        (FileNotFoundError(2, "No such file", "w.pt"), UserError, "models.m"),
        (UserError("is even.", where="depth"), UserError, "models.m.depth"),
    ],
)
def test_errors_of_the_builder_become_the_users(raised: Exception, kind: type, place: str) -> None:
    def build(depth: int) -> None:
        raise raised

    with pytest.raises(UserError) as caught:
        build_with(build, {"depth": 3}, "models.m")
    assert type(caught.value) is kind and caught.value.where == place
    assert str(raised.args[-1]) in str(caught.value)


def test_other_errors_of_the_builder_stay_what_they_are() -> None:
    def build() -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        build_with(build, {})


def test_options_are_described_from_signature_and_docstring() -> None:
    steps, rate, loss, restarts, sizes = describe_options(Search)
    assert (steps.name, steps.type, steps.default, steps.required) == ("steps", "whole number", 10, False)
    assert steps.help == "How often it steps."
    assert (rate.type, rate.default) == ("number", None)
    assert rate.help == "Size of a step, in units of epsilon: a fraction."
    assert loss.type == "one of 'ce', 'margin', 'dlr'"
    assert (restarts.name, restarts.parameter, restarts.help) == ("restarts-at-most", "restarts_at_most", "")
    assert (sizes.type, sizes.default) == ("list of whole numbers", (3, 5))


def test_options_of_a_function_are_described() -> None:
    found = {option.name: option for option in describe_options(everything, skip=("flag",))}
    assert "flag" not in found
    assert found["path"].required and found["path"].help == "Where it lies."
    assert found["mean"].type == "list of 3 (number, number, number)"
    assert found["limit"].type == "number (inf allowed)"
    assert found["function"].type == "function"
    assert found["named"].type == "table"
    assert found["mystery"].type == found["untyped"].type == "anything"


def test_subclasses_partials_and_text_builders_are_read_too() -> None:
    @attrs.frozen
    class Longer(Search):
        """A longer search.

        Attributes:
            patience: When it gives up.
        """

        patience: int = 3

    helps = {option.name: option.help for option in describe_options(Longer)}
    assert helps["steps"] == "How often it steps." and helps["patience"] == "When it gives up."
    assert isinstance(refusal(Longer, {"patience": "x"}), MisuseError)
    assert isinstance(refusal(functools.partial(everything, path=Path()), {"flag": "x"}), MisuseError)
    lazy = LazyBuilder("fractions:Fraction")
    assert [option.name for option in describe_options(lazy)] == ["numerator", "denominator"]


def test_a_default_is_never_shared_between_descriptions() -> None:
    @attrs.frozen
    class Listed:
        sizes: list[int] = attrs.field(factory=list)

    (first,), (second,) = describe_options(Listed), describe_options(Listed)
    assert first.default == [] and first.default is not second.default
