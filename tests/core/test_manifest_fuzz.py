"""Whatever is done to a shipped manifest, it is understood or refused in words; nothing else ever happens."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unmask.errors import UserError
from unmask.manifest.checking import check_manifest
from unmask.manifest.reading import parse_manifest, read_manifest

FOLDER = Path(__file__).parents[2] / "manifests"
SHIPPED = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.toml"))}

PROFILE = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([0, 1, -1, 255, 2**63])
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(
        ["8/255", "pgd", "linf", "l2", "digits", "small-cnn", "unmask:pgd", "..", "\u0000", "ε"]
    )
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def test_there_are_shipped_manifests_and_all_are_valid():
    assert "quickstart.toml" in SHIPPED
    for name, text in SHIPPED.items():
        check_manifest(parse_manifest(text, folder=FOLDER, file=name))


def understood(text: str) -> bool:
    """Whether it was taken; a refusal must be in words, one paragraph, with its place."""
    try:
        check_manifest(parse_manifest(text, folder=FOLDER, file="m.toml"))
    except UserError as error:
        message = str(error)
        assert message.startswith("m.toml")
        assert "Traceback" not in message and len(message) > len("m.toml: ")
        return False
    return True


@pytest.mark.parametrize("name", SHIPPED)
@given(data=st.data())
@PROFILE
def test_damaged_text(name: str, data: st.DataObject) -> None:
    text = SHIPPED[name]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 12))
        put = data.draw(st.text(max_size=6) | st.sampled_from(['"', "[", "]", "=", "\n", "{", "'''", "\x00"]))
        text = text[:at] + put + text[at + length :]
    understood(text)


def paths(table: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    found = [here] if here else []
    inside = table.items() if isinstance(table, dict) else enumerate(table) if isinstance(table, list) else ()
    for key, value in inside:
        found += paths(value, (*here, key))
    return found


def holder(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        document = document[key]
    return document


@pytest.mark.parametrize("name", SHIPPED)
@given(data=st.data())
@PROFILE
def test_changed_values(name: str, data: st.DataObject) -> None:
    document = tomllib.loads(SHIPPED[name])
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(paths(document)))
        inside = holder(document, path)
        action = data.draw(st.sampled_from(["replace", "delete", "double"]))
        if action == "replace":
            inside[path[-1]] = data.draw(values)
        elif action == "delete":
            del inside[path[-1]]
        elif isinstance(inside, list):
            inside.append(inside[path[-1]])
        else:
            inside[f"{path[-1]}2"] = inside[path[-1]]
        if not paths(document):
            break
    understood(as_toml(document))


@pytest.mark.parametrize("name", SHIPPED)
@given(data=st.data())
@PROFILE
def test_no_unknown_key_is_ever_taken(name: str, data: st.DataObject) -> None:
    document = tomllib.loads(SHIPPED[name])
    tables = [()] + [p for p in paths(document) if isinstance(holder(document, p)[p[-1]], dict)]
    # Names of models and attacks are free; everything else is known.
    tables = [p for p in tables if p not in (("models",), ("attacks",))]
    path = data.draw(st.sampled_from(tables))
    inside = holder(document, path)[path[-1]] if path else document
    inside["no-such-" + data.draw(st.text("abcdefgh-", min_size=1, max_size=8))] = data.draw(
        st.integers(0, 9) | st.just("text") | st.booleans()
    )
    assert not understood(as_toml(document))


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.toml"
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        read_manifest(path)
    assert "any.toml" in str(refused.value)


def as_toml(document: Any) -> str:
    """A document as TOML, its tables inline; None and what TOML lacks become text."""

    def inline(value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, dict):
            return "{ " + ", ".join(f"{quoted(str(k))} = {inline(v)}" for k, v in value.items()) + " }"
        if isinstance(value, list):
            return "[" + ", ".join(map(inline, value)) + "]"
        if isinstance(value, float):
            return repr(value)
        if isinstance(value, int):
            return str(value)
        return quoted(str(value))

    return "".join(f"{quoted(str(key))} = {inline(value)}\n" for key, value in document.items())


def quoted(text: str) -> str:
    # TOML has no surrogate pairs: what JSON would escape as one is written as it is.
    escaped = "".join(c if ord(c) > 0xFFFF else json.dumps(c)[1:-1] for c in text)
    return '"' + escaped.replace("\x7f", "\\u007f") + '"'


def test_the_writer_of_these_tests_writes_what_it_read():
    for text in SHIPPED.values():
        document = tomllib.loads(text)
        assert tomllib.loads(as_toml(document)) == document
