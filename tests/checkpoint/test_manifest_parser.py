from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.checkpoint.manifest import seal
from rlpipe.checkpoint.manifest_parser import parse_manifest
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import FormatVersionError, ManifestError, RlpipeError
from tests.checkpoint.components import policy, tree

FILE = "ckpt/manifest.json"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Texts of real manifests: of a policy with a tie, and of a container with ties between children."""
    shared = np.arange(6.0)
    path = tmp_path_factory.mktemp("texts")
    write_checkpoint(policy(1, tied=[shared, shared], none=np.zeros((0, 2))), path / "policy", provenance={"a": 1})
    write_checkpoint(tree(2, shared=shared).children["policies"], path / "container")
    return {name: (path / name / "manifest.json").read_text() for name in ("policy", "container")}


def resealed(text: str, *place: str | int, value: Any) -> str:
    """The text with a value put at a place, and a right hash; `...` takes the place away."""
    fields = json.loads(text)
    node = fields
    for name in place[:-1]:
        node = node[name]
    if value is ...:
        del node[place[-1]]
    else:
        node[place[-1]] = value
    del fields["manifest_hash"]
    return seal(fields)[0]


@pytest.mark.parametrize("name", ["policy", "container"])
def test_a_manifest_is_its_text(texts: dict[str, str], name: str) -> None:
    manifest, digest = parse_manifest(texts[name], FILE)
    assert seal(manifest.to_json()) == (texts[name], digest)
    assert digest == json.loads(texts[name])["manifest_hash"]
    body = texts[name].partition(',\n"manifest_hash":')[0]
    assert digest == hashlib.sha256(body.encode()).hexdigest()


def test_line_endings_do_not_matter(texts: dict[str, str]) -> None:
    assert parse_manifest(texts["policy"].replace("\n", "\r\n"), FILE)[1] == parse_manifest(texts["policy"], FILE)[1]


@pytest.mark.parametrize(
    "change", [lambda text: text[:-1], lambda text: text + "\n", lambda text: " " + text, json.loads]
)
def test_another_form_of_the_same_json_is_refused(texts: dict[str, str], change: Any) -> None:
    changed = change(texts["policy"])
    with pytest.raises(ManifestError, match=FILE):
        parse_manifest(changed if isinstance(changed, str) else json.dumps(changed, indent=1), FILE)


def test_an_edited_manifest_is_refused(texts: dict[str, str]) -> None:
    with pytest.raises(ManifestError, match=r"manifest_hash[^$]*a file that was changed"):
        parse_manifest(texts["policy"].replace('"role":"training"', '"role":"inference"'), FILE)


def test_a_newer_version_is_told_before_anything_else(texts: dict[str, str]) -> None:
    with pytest.raises(FormatVersionError):
        parse_manifest('{"format":"rlpipe-checkpoint","version":3,"nothing":"else"}', FILE)


W = ("arrays", "encoder/0/weight")
BAD: list[tuple[tuple[str | int, ...], Any, str]] = [
    (("format",), "other", "format"),
    (("version",), -1, "version"),
    (("version",), "0", "version"),
    (("version",), True, "version"),
    (("surprise",), 1, "unknown: surprise"),
    (("ties",), ..., "missing: ties"),
    (("spec", "class"), 3, "spec.class"),
    (("spec", "extra"), 3, "spec"),
    (("spec", "config"), [], "spec.config"),
    (("metadata",), [], "metadata"),
    (("content_hash",), "0" * 63, "content_hash"),
    (("inference_hash",), "X" * 64, "inference_hash"),
    (("origin", "created"), "yesterday", "origin.created"),
    (("origin", "user"), "me", "origin"),
    ((*W, "dtype"), "float31", "weight.dtype"),
    ((*W, "dtype"), "object", "weight.dtype"),
    ((*W, "shape"), [8, 5], "weight.length"),
    ((*W, "shape"), [-8, -4], "weight.shape"),
    ((*W, "shape"), [8.0, 4], "weight.shape"),
    ((*W, "shape"), "84", "weight.shape"),
    ((*W, "shape"), [1] * 65, "weight.shape"),
    ((*W, "shape"), [2**52, 2**52, 0, 3], "weight.length"),
    ((*W, "offset"), -64, "weight.offset"),
    ((*W, "offset"), 65, "weight.offset"),
    ((*W, "offset"), 128.0, "weight.offset"),
    ((*W, "offset"), 2**62, "weight.offset"),
    ((*W, "length"), 127, "weight.length"),
    ((*W, "role"), "both", "weight.role"),
    ((*W, "xxh3"), "0" * 31, "weight.xxh3"),
    ((*W, "codec"), "zip", "weight"),
    (("arrays", "none", "offset"), 64, "none.offset"),
    (("arrays", "tied/1"), {"alias": "nothing", "role": "inference"}, "alias"),
    (("arrays", "tied/1"), {"alias": "tied/1", "role": "inference"}, "alias"),
    (("arrays", "tied/1"), {"alias": "tied/0", "role": "training"}, "one role"),
    (("arrays", "tied/1"), ..., "state"),
    (("arrays", "vf/weight"), ..., "state"),
    (("arrays", "../x"), {"alias": "tied/0", "role": "inference"}, "escaped"),
    (("arrays", "a//b"), {"alias": "tied/0", "role": "inference"}, "escaped"),
    (("arrays", "more"), {"alias": "tied/0", "role": "inference"}, "state"),
    (("entries", "steps"), ..., "role for each entry"),
    (("entries", "more"), "inference", "role for each entry"),
    (("entries", "steps"), "none", "entries.steps"),
    (("state", "dict", "steps"), {"int": "0x1"}, "one form"),
    (("state", "dict", "steps"), {"float": "zz"}, "state"),
    (("state", "dict", "steps"), {"evil": 1}, "state"),
    (("state", "dict", "%41"), 1, "state"),
    (("state",), {"tuple": []}, "state"),
    (("state",), [], "state"),
    (("file", "name"), "../state.h5", "file.name"),
    (("file", "name"), "manifest.json", "file.name"),
    (("file", "name"), "/etc/passwd", "file.name"),
    (("file", "size"), 0, "file.size"),
    (("file", "size"), 1.5, "file.size"),
    (("file", "piece_size"), 0, "file.piece_size"),
    (("file", "piece_size"), 2**40, "file.piece_size"),
    (("file", "pieces"), [], "file.pieces"),
    (("file", "pieces"), ["0" * 32] * 2, "file.pieces"),
    (("file", "pieces"), [3], "file.pieces.0"),
    (("file",), None, "array file"),
    (("children", ".."), "0" * 64, "children"),
    (("children", "a/b"), "0" * 64, "children"),
    (("children", "C:"), "0" * 64, "children"),
    (("children", "p"), "short", "children.p"),
]


@pytest.mark.parametrize(("place", "value", "match"), BAD)
def test_what_breaks_the_format_is_named_by_file_and_field(
    texts: dict[str, str], place: tuple[str | int, ...], value: Any, match: str
) -> None:
    with pytest.raises(ManifestError, match=FILE) as caught:
        parse_manifest(resealed(texts["policy"], *place, value=value), FILE)
    assert match in str(caught.value)
    assert caught.value.expected


BAD_TIES: list[Any] = [
    {},
    [[]],
    [[["p0", "shared"]]],
    [[["p0", "shared"], ["p0", "encoder/0/bias"]]],
    [[["p0", "shared"], ["p0", "shared"]]],
    [[["p0", "shared"], ["p9", "shared"]]],
    [[["p0", "shared"], ["../p1", "shared"]]],
    [[["p0", "shared"], ["p1", "a//b"]]],
    [[["p0", "shared"], ["p1"]]],
    [[["p0", "shared"], ["p1", 3]]],
]


@pytest.mark.parametrize("ties", BAD_TIES)
def test_ties_that_are_none(texts: dict[str, str], ties: Any) -> None:
    with pytest.raises(ManifestError, match="ties"):
        parse_manifest(resealed(texts["container"], "ties", value=ties), FILE)


def test_overlapping_arrays_are_named(texts: dict[str, str]) -> None:
    arrays = json.loads(texts["policy"])["arrays"]
    offset = arrays["vf/weight"]["offset"]
    with pytest.raises(ManifestError, match="overlap"):
        parse_manifest(resealed(texts["policy"], "arrays", "encoder/0/bias", "offset", value=offset), FILE)


def test_endless_nesting_ends(texts: dict[str, str]) -> None:
    value: Any = 1
    for _ in range(300):
        value = [value]
    with pytest.raises(ManifestError):
        parse_manifest(resealed(texts["policy"], "state", "dict", "steps", value=value), FILE)
    nested = texts["policy"].replace('"metadata":{}', f'"metadata":{{"a":{"[" * 5000}{"]" * 5000}}}')
    with pytest.raises(ManifestError):
        parse_manifest(nested, FILE)


places: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data())
def test_any_change_under_a_right_hash_is_a_manifest_or_a_typed_error(
    texts: dict[str, str], data: st.DataObject
) -> None:
    fields = json.loads(texts[data.draw(st.sampled_from(["policy", "container"]))])
    del fields["manifest_hash"]
    node = fields
    while True:
        keys = sorted(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(node[key], (dict, list)) or not node[key] or data.draw(st.booleans()):
            break
        node = node[key]
    node[key] = data.draw(places)
    text = seal(fields)[0]
    try:
        manifest, _ = parse_manifest(text, FILE)
    except RlpipeError:
        return
    assert seal(manifest.to_json())[0] == text


def test_the_file_is_readable_line_by_line(texts: dict[str, str]) -> None:
    lines = texts["policy"].splitlines()
    assert any(line.startswith('"encoder/0/weight":{"dtype":"float32"') for line in lines)
    assert texts["policy"].isascii()
    assert Path(FILE).name in FILE
