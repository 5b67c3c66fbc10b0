from __future__ import annotations

import datetime as dt
import os
from contextlib import suppress

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.errors import UnsafePayloadError
from rlpipe.importers.restricted.inert_yaml import read_yaml

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(PLAIN)
def test_what_the_safe_dumper_wrote_comes_back(value: object) -> None:
    assert read_yaml(yaml.safe_dump(value).encode(), subject="x") == value


def test_tags_of_python_are_remarks_on_plain_values() -> None:
    value = {"a": (1, (2.5, "b")), "slice": slice(None, 3), "class": dt.date, "set": {1}, "bytes": b"12"}
    read = read_yaml(yaml.dump(value).encode(), subject="x")
    assert read["a"] == [1, [2.5, "b"]]
    assert read["slice"] == [None, 3, None]
    assert read["class"] == "datetime.date"
    assert read["set"] == {1: None}
    assert read["bytes"].strip() == "MTI="


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.mkdir ['{}']",
        "!!python/object/new:os.mkdir {{args: ['{}']}}",
        "a: !!python/object:tests.X {{x: '{}'}}",
        "a: !mine &again ['{}', *again]",
        "!!python/module:os '{}'",
    ],
)
def test_nothing_is_called(text: str, tmp_path: object) -> None:
    target = f"{tmp_path}/made"
    assert read_yaml(text.format(target).encode(), subject="x") is not None
    assert not os.path.exists(target)  # noqa: PTH110 - the text in the file is no Path


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"[" * 100_000, "nesting|levels"),
        (b"- " * 5_000 + b"1", "levels"),
        (b"a: &a [1]\nb:\n  <<: *a", "merge key"),
        (b"\xff", "codec"),
        (b"a: 1\nb: 2\na: 3\n", "'a' twice, again in line 3"),
        (b"a:\n  !!python/object:x.Y\n  b: 1\n  b: 1\n", "'b' twice, again in line 4"),
        (b"a: !!int foo", "invalid literal"),
        (b"a: 1" + b"0" * 10_000, "digits"),
        (b"? {a: 1}\n: 2", "unhashable"),
        (b"a: 1\n---\nb: 2", "single document"),
        (b"a: [", "expected"),
        (b"- 1\n" * 500_000, "values"),
        (b"#" * (8 * 2**20 + 1), "bytes"),
    ],
)
def test_what_is_no_settings_file_is_refused(data: bytes, found: str) -> None:
    with pytest.raises(UnsafePayloadError, match=found) as caught:
        read_yaml(data, subject="agent.yaml")
    assert "agent.yaml" in caught.value.subject


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(UnsafePayloadError):
        read_yaml(data, subject="x")
