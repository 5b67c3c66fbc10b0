from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.checkpoint import manifest_parser
from rlpipe.checkpoint.manifest import seal
from rlpipe.checkpoint.manifest_parser import parse_manifest
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import FormatVersionError, ManifestError, RlpipeError
from tests.checkpoint.components import policy, tree
from tests.checkpoint.texts import fields_of, sealed

FILE = "ckpt/manifest.json"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Texts of real manifests: of a policy with a tie, and of a container with ties between children."""
    shared = np.arange(6.0)
    path = tmp_path_factory.mktemp("texts")
    write_checkpoint(policy(1, tied=[shared, shared], none=np.zeros((0, 2))), path / "policy", provenance={"a": 1})
    write_checkpoint(tree(2, shared=shared).children["policies"], path / "container")
    return {name: (path / name / "manifest.json").read_text() for name in ("policy", "container")}


def changed(text: str, *place: str | int, value: Any) -> str:
    """The text with a value put at a place, and a right hash; `...` takes the place away."""
    fields = fields_of(text)
    node: Any = fields
    for name in place[:-1]:
        node = node[name]
    if value is ...:
        del node[place[-1]]
    else:
        node[place[-1]] = value
    return sealed(fields)


@pytest.mark.parametrize("name", ["policy", "container"])
def test_a_manifest_is_its_text(texts: dict[str, str], name: str) -> None:
    manifest, digest = parse_manifest(texts[name], FILE)
    assert seal(manifest.text()) == (texts[name], digest)
    assert sealed(fields_of(texts[name])) == texts[name]
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
        parse_manifest(texts["policy"].replace('"training"', '"inference"'), FILE)


def test_a_newer_version_is_told_before_anything_else(texts: dict[str, str]) -> None:
    with pytest.raises(FormatVersionError):
        parse_manifest('{"format":"rlpipe-checkpoint","version":3,"nothing":"else"}', FILE)


KEYS = ["encoder/0/bias", "encoder/0/weight", "history/2", "none", "tied/0", "tied/1", "vf/weight"]
KEY, DTYPE, SHAPE, ROLE, OFFSET = range(5)


def row(key: str, *column: int) -> tuple[str | int, ...]:
    return ("file", "arrays", KEYS.index(key), *column)


W = row("encoder/0/weight")
WEIGHT = ["encoder/0/weight", "float32", [8, 4], "inference", 192]
BAD: list[tuple[tuple[str | int, ...], Any, str]] = [
    (("format",), "other", "format"),
    (("version",), -1, "version"),
    (("version",), "1", "version"),
    (("version",), True, "version"),
    (("surprise",), 1, "unknown: surprise"),
    (("ties",), ..., "missing: ties"),
    (("spec", "class"), 3, "spec.class"),
    (("spec", "extra"), 3, "spec"),
    (("spec", "config"), [], "spec.config"),
    (("spec", "options"), [], "spec.options"),
    (("spec",), [], "spec"),
    (("metadata",), [], "metadata"),
    (("content_hash",), "0" * 63, "content_hash"),
    (("inference_hash",), "X" * 64, "inference_hash"),
    (("origin", "created"), "yesterday", "origin.created"),
    (("origin", "user"), "me", "origin"),
    (("origin", "provenance"), [], "origin.provenance"),
    ((*W, DTYPE), "float31", "weight.dtype"),
    ((*W, DTYPE), "object", "weight.dtype"),
    ((*W, DTYPE), ["float32"], "weight.dtype"),
    ((*W, SHAPE), [8, 5000], "weight.offset"),
    ((*W, SHAPE), [-8, -4], "weight.shape"),
    ((*W, SHAPE), [8.0, 4], "weight.shape"),
    ((*W, SHAPE), [True, 4], "weight.shape"),
    ((*W, SHAPE), "84", "weight.shape"),
    ((*W, SHAPE), [1] * 65, "weight.shape"),
    ((*W, SHAPE), [2**52, 2**52, 2**52], "weight.offset"),
    ((*W, SHAPE), [2**52, 2**52, 0, 3], "weight.offset"),
    ((*W, OFFSET), -64, "weight.offset"),
    ((*W, OFFSET), 65, "weight.offset"),
    ((*W, OFFSET), 128.0, "weight.offset"),
    ((*W, OFFSET), 2**62, "weight.offset"),
    ((*W, ROLE), "both", "weight.role"),
    (W, WEIGHT[:-1], "file.arrays.1"),
    (W, [*WEIGHT, "zip"], "file.arrays.1"),
    (W, {"key": "encoder/0/weight"}, "file.arrays.1"),
    ((*W, KEY), 3, "file.arrays.1"),
    ((*W, KEY), "../x", "escaped"),
    ((*W, KEY), "a//b", "escaped"),
    ((*W, KEY), "a%2", "escaped"),
    ((*W, KEY), "%41", "escaped"),
    ((*W, KEY), "/".join("a" * 65), "at most 64 names"),
    ((*W, KEY), "encoder/0/bias", "sorted by key"),
    ((*W, KEY), "encoder/0/a", "sorted by key"),
    ((*W, KEY), "encoder/0/bias/more", "apart"),
    (row("none", OFFSET), 64, "none.offset"),
    (row("tied/1", SHAPE), [7], "overlap"),
    (row("tied/1", DTYPE), "int64", "overlap"),
    (row("tied/1", ROLE), "training", "one role"),
    (row("history/2"), ..., "history"),
    (row("history/2", KEY), "history/3", "history"),
    (row("history/2", ROLE), "training", "one role"),
    (("file", "arrays"), {}, "layout"),
    (("entries", "steps"), ["none", 1], "entries.steps"),
    (("entries", "steps"), ["inference"], "entries.steps"),
    (("entries", "steps"), "inference", "entries.steps"),
    (("entries", "steps"), ["inference", {"int": "0x1"}], "one form"),
    (("entries", "steps"), ["inference", {"float": "zz"}], "entries.steps"),
    (("entries", "steps"), ["inference", {"evil": 1}], "entries.steps"),
    (("entries", "steps"), ["inference", {"array": None}], "entries.steps"),
    (("entries", "steps"), ["inference", {"dict": {"a": 1}}], "one form"),
    (("entries", "steps"), ["inference", [{"dict": {"%41": 1}}]], "one form"),
    (("entries", "%41"), ["inference", 1], "escaped"),
    (("entries", "none"), ["inference", 1], "no array"),
    (("entries", "none"), ["inference", {"array": None}], "one form"),
    (("entries", "vf"), ["inference", 1], "apart"),
    (("entries", "vf/weight/more"), ["inference", 1], "apart"),
    (("entries",), [], "entries"),
    (("xxh3", 1), "0" * 31, "xxh3.1"),
    (("xxh3", 1), "X" * 32, "xxh3.1"),
    (("xxh3", 1), 3, "xxh3.1"),
    (("xxh3", 1), ..., "xxh3"),
    (("xxh3", KEYS.index("tied/1")), "0" * 32, "one place"),
    (("xxh3",), {}, "xxh3"),
    (("file", "name"), "../state.h5", "file.name"),
    (("file", "name"), "manifest.json", "file.name"),
    (("file", "name"), "/etc/passwd", "file.name"),
    (("file", "size"), 0, "file.size"),
    (("file", "size"), 1.5, "file.size"),
    (("file", "size"), 2**60, "file.size"),
    (("file", "frame"), "0" * 31, "file.frame"),
    (("file", "backend"), 3, "file.backend"),
    (("file",), None, "history"),
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
        parse_manifest(changed(texts["policy"], *place, value=value), FILE)
    assert match in str(caught.value)
    assert caught.value.expected


def test_the_table_of_the_examples(texts: dict[str, str]) -> None:
    table = json.loads(texts["policy"])["file"]["arrays"]
    assert [each[KEY] for each in table] == KEYS
    assert table[1] == WEIGHT
    assert table[KEYS.index("tied/0")][OFFSET] == table[KEYS.index("tied/1")][OFFSET]


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
        parse_manifest(changed(texts["container"], "ties", value=ties), FILE)


def test_overlapping_arrays_are_named(texts: dict[str, str]) -> None:
    offset = json.loads(texts["policy"])["file"]["arrays"][KEYS.index("vf/weight")][OFFSET]
    with pytest.raises(ManifestError, match="overlap"):
        parse_manifest(changed(texts["policy"], *row("encoder/0/bias", OFFSET), value=offset), FILE)


def test_endless_nesting_ends(texts: dict[str, str]) -> None:
    value: Any = 1
    for _ in range(300):
        value = [value]
    with pytest.raises(ManifestError):
        parse_manifest(changed(texts["policy"], "entries", "steps", value=["inference", value]), FILE)
    nested = texts["policy"].replace('"metadata":{}', f'"metadata":{{"a":{"[" * 5000}{"]" * 5000}}}')
    with pytest.raises(ManifestError):
        parse_manifest(nested, FILE)
    with pytest.raises(ManifestError):
        parse_manifest(seal(nested.partition(',\n"manifest_hash"')[0])[0], FILE)


@pytest.mark.parametrize("place", [("metadata",), ("spec", "config"), ("spec", "options"), ("origin", "provenance")])
def test_depth_has_a_limit_that_no_python_moves(texts: dict[str, str], place: tuple[str, ...]) -> None:
    value: Any = {}
    for depth in range(2, 65):
        value = {"a": value} if depth % 2 else {"a": [], "b": value}
    parse_manifest(changed(texts["policy"], *place, value=value), FILE)
    with pytest.raises(ManifestError, match=r"at most 64 levels"):
        parse_manifest(changed(texts["policy"], *place, value={"a": value}), FILE)


def test_a_field_cannot_end_early_and_bring_another_one(texts: dict[str, str]) -> None:
    for before, after in (
        ('"metadata":{}', '"metadata":{},"more":1'),
        ('"metadata":{}', '"metadata": {}'),
        ('"ties":[]', '"ties":[],\n"ties":[]'),
        ('],\n"content_hash"', '],\n"xxh3":[],\n"content_hash"'),
        ("\n]},", "\n]},\n"),
        ('"backend"', '"backend":"x","backend"'),
    ):
        text = texts["policy"].partition(',\n"manifest_hash"')[0]
        assert before in text
        with pytest.raises(ManifestError):
            parse_manifest(seal(text.replace(before, after))[0], FILE)


@pytest.mark.parametrize("more", ["", ",", "}", "null", '"', f'"{"0" * 64}",\n"more":1', f'"{"0" * 64}"\n}}\n'])
def test_nothing_stands_behind_a_first_seal(texts: dict[str, str], more: str) -> None:
    for text in texts.values():
        body = text.partition(',\n"manifest_hash"')[0]
        for again in ("", body.partition(',\n"xxh3":')[2]):
            with pytest.raises(ManifestError):
                parse_manifest(seal(f'{body},\n"manifest_hash":{more}{again}')[0], FILE)


places: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def with_another_value(draw: st.DrawFn, text: str) -> str:
    """The text with another value anywhere, in the one layout and under a right hash."""
    fields = fields_of(text)
    node: Any = fields
    while True:
        key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if not isinstance(node[key], (dict, list)) or not node[key] or draw(st.booleans()):
            break
        node = node[key]
    node[key] = draw(places)
    return sealed(fields)


@st.composite
def with_other_characters(draw: st.DrawFn, text: str) -> str:
    """The text with some characters taken away, doubled, or put in, under a right hash."""
    body = text.partition(',\n"manifest_hash":')[0]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(body)))
        end = draw(st.integers(start, min(len(body), start + 40)))
        put_in = draw(st.sampled_from([*BITS, body[start:end] * 2]))
        body = body[:start] + put_in + body[end:]
    return seal(body)[0]


HEX = '"0123456789abcdef0123456789abcdef",\n'
METADATA, ORIGIN = ',\n"metadata":', ',\n"origin":'
BITS = ["", " ", "\n", "0", "A", '"', ",", '",\n"', "[]", "{}", HEX, METADATA, ORIGIN, f"{METADATA}{{}}{ORIGIN}null"]


@given(data=st.data())
def test_any_change_under_a_right_hash_is_a_manifest_or_a_typed_error(
    texts: dict[str, str], data: st.DataObject
) -> None:
    text = data.draw(with_another_value(texts[data.draw(st.sampled_from(["policy", "container"]))]))
    try:
        manifest, _ = parse_manifest(text, FILE)
    except RlpipeError:
        return
    assert seal(manifest.text())[0] == text


def read(text: str) -> Any:
    """All that reading a text gives: the manifest, or the error."""
    try:
        manifest, digest = parse_manifest(text, FILE)
    except RlpipeError as error:
        return type(error), str(error)
    return {**vars(manifest), "table": manifest.table.text}, list(manifest.digests), digest


def read_anew(text: str) -> Any:
    """The same when nothing is remembered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_parser, "_REMEMBERED", -1)
        return read(text)


@given(data=st.data())
def test_what_is_remembered_changes_nothing(texts: dict[str, str], data: st.DataObject) -> None:
    change = data.draw(st.sampled_from([with_another_value, with_other_characters]))
    text = texts[data.draw(st.sampled_from(["policy", "container"]))]
    metadata = data.draw(st.sampled_from([{}, {"steps": 1, "notes": [{"origin": None}]}]))
    text = data.draw(change(changed(text, "metadata", value=metadata)))
    assert read(text) == read(text) == read_anew(text)


@pytest.mark.parametrize("inside", ["", "null", "[]", "{", '{"a":1,"a":2}', '{"a":NaN}', '{"a":1} ', '{"a":1},"b":2'])
def test_metadata_are_read_as_strictly_where_the_rest_is_known(texts: dict[str, str], inside: str) -> None:
    text = texts["policy"].partition(',\n"manifest_hash"')[0]
    parse_manifest(seal(text)[0], FILE)
    wrong = seal(text.replace(f"{METADATA}{{}}", METADATA + inside))[0]
    assert read(wrong) == read_anew(wrong)
    assert read(wrong)[0] is ManifestError


@pytest.mark.parametrize("field", ["spec", "entries", "metadata"])
def test_fields_inside_of_others_are_not_taken_for_metadata(texts: dict[str, str], field: str) -> None:
    text = texts["policy"].partition(',\n"manifest_hash"')[0]
    inside = f'{{"class":"a.B"{METADATA}{{"x":1}}{ORIGIN}null,"config":{{}},"options":{{}}}}'
    start = text.index(f'"{field}":') + len(field) + 3
    for end in (start, text.index(",\n", start)):
        text = text[:start] + inside + text[end:]
        assert read(seal(text)[0]) == read_anew(seal(text)[0])


@pytest.mark.parametrize("change", BAD)
def test_what_breaks_the_format_is_told_again(texts: dict[str, str], change: tuple[Any, Any, str]) -> None:
    place, value, _ = change
    text = changed(texts["policy"], *place, value=value)
    assert read(text) == read(text) == read_anew(text)


@pytest.mark.parametrize("name", ["policy", "container"])
def test_manifests_share_nothing_that_can_be_changed(texts: dict[str, str], name: str) -> None:
    text = changed(texts[name], "spec", "config", value={"a": [{}]})
    text = changed(changed(text, "spec", "options", value={"b": 1}), "metadata", value={"c": {"d": []}})
    known = read_anew(text)
    for _ in range(2):
        manifest: Any = parse_manifest(text, FILE)[0]
        manifest.spec.config["a"][0]["b"] = manifest.spec.options["x"] = 1
        manifest.metadata["c"]["d"].append(1)
        manifest.roles.clear()
        manifest.digests.clear()
        if manifest.origin:
            manifest.origin.provenance["x"] = 1
        for each in (manifest.children, manifest.attachments, manifest.plain):
            with pytest.raises(TypeError):
                each["more"] = 1
    assert read(text) == known


def test_the_file_is_readable_line_by_line(texts: dict[str, str]) -> None:
    lines = texts["policy"].splitlines()
    assert any(line.startswith('["encoder/0/weight","float32",[8,4],"inference"') for line in lines)
    assert texts["policy"].isascii()
    assert Path(FILE).name in FILE
