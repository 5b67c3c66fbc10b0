"""Manifests of older versions, read as if they were written today."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.checkpoint.format import VERSION
from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.manifest import seal
from rlpipe.checkpoint.manifest_parser import parse_manifest
from rlpipe.checkpoint.migrations import MIGRATIONS, migrated
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.strict_json import Strict
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import FormatVersionError, ManifestError
from rlpipe.snapshot import diff
from rlpipe.snapshot.identity import content_hash
from tests.checkpoint.components import policy, tree
from tests.checkpoint.texts import fields_of, sealed

FILE = "ckpt/manifest.json"
Fields = dict[str, Any]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    shared = np.arange(6.0)
    path = write_checkpoint(policy(1, tied=[shared, shared]), tmp_path_factory.mktemp("texts") / "ckpt")
    return (path / "manifest.json").read_text()


def as_version_0(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if name != "attachments"} | {"version": 0}


def made_up(fields: Fields) -> Fields:
    """Roles had another name, arrays were objects, and nobody counted steps."""
    arrays = [
        [key, each["dtype"], each["shape"], "inference" if each["acts"] else "training", each["at"]]
        for key, each in fields["file"]["arrays"].items()
    ]
    entries = {**fields["entries"], "steps": ["inference", 1]}
    return {**fields, "file": {**fields["file"], "arrays": arrays}, "entries": entries, "attachments": {}}


def as_made_up(fields: Fields) -> Fields:
    arrays = {
        key: {"dtype": dtype, "shape": shape, "acts": role == "inference", "at": at}
        for key, dtype, shape, role, at in fields["file"]["arrays"]
    }
    entries = {key: value for key, value in fields["entries"].items() if key != "steps"}
    return as_version_0(fields) | {"file": {**fields["file"], "arrays": arrays}, "entries": entries}


def test_each_version_has_a_way_to_the_next_one() -> None:
    assert sorted(MIGRATIONS) == list(range(VERSION))


def test_a_made_up_version(text: str) -> None:
    old = sealed(as_made_up(fields_of(text)))
    manifest, digest = parse_manifest(old, FILE, migrations={0: made_up})
    assert manifest.version == 0
    assert digest == json.loads(old)["manifest_hash"]
    assert seal(manifest.text())[0] == text


def test_steps_follow_each_other_and_change_nothing_that_is_given() -> None:
    def step(found: Fields) -> Fields:
        return {**found, "steps": [*found["steps"], found["version"]]}

    given = {"version": 2, "steps": []}
    assert migrated(given, 2, 5, dict.fromkeys(range(5), step), Strict(FILE)) == {"version": 5, "steps": [2, 3, 4]}
    assert given == {"version": 2, "steps": []}


@pytest.mark.parametrize("layout", [sealed, lambda fields: seal(json.dumps(fields, indent=2)[:-2])[0]])
def test_a_manifest_of_version_0_in_any_layout(text: str, layout: Any) -> None:
    manifest, _ = parse_manifest(layout(as_version_0(fields_of(text))), FILE)
    assert (manifest.version, manifest.attachments) == (0, {})
    assert seal(manifest.text())[0] == text


def test_a_checkpoint_of_version_0(tmp_path: Path) -> None:
    path = write_checkpoint(tree(2, shared=np.arange(3.0)), tmp_path / "ckpt")
    known = read_checkpoint(path)
    hashes: dict[Path, str] = {}
    for file in sorted(path.rglob("manifest.json"), key=lambda file: -len(file.parts)):
        fields = as_version_0(fields_of(file.read_text()))
        fields["children"] = {name: hashes[file.parent / name] for name in fields["children"]}
        file.write_text(sealed(fields))
        hashes[file.parent] = json.loads(file.read_text())["manifest_hash"]
    found = read_checkpoint(path)
    assert diff(known, found).same
    assert content_hash(found) == inspect_checkpoint(path).content_hash
    assert {each.version for each in inspect_checkpoint(path).walk()} == {0}
    assert verify_checkpoint(path).ok
    again = write_checkpoint(found, path, if_exists="replace")
    assert {each.version for each in inspect_checkpoint(again).walk()} == {VERSION}


@pytest.mark.parametrize("damage", [lambda text: text.replace("inference", "training", 1), lambda text: text + "\n"])
def test_damage_is_found_before_anything_is_migrated(text: str, damage: Any) -> None:
    def never(_: Fields) -> Fields:
        raise AssertionError

    old = damage(sealed(as_version_0(fields_of(text))))
    with pytest.raises(ManifestError, match=FILE):
        parse_manifest(old, FILE, migrations={0: never})


@pytest.mark.parametrize(
    "change",
    [
        {"file": None},
        {"file": 3},
        {"file": {"arrays": 3}},
        {"file": {"arrays": [3]}},
        {"file": {"arrays": []}},
        {"entries": 3},
        {"xxh3": "x"},
        {"spec": None},
        {"ties": {}},
        {"more": 1},
        {"attachments": {"model/../x": [1, "0" * 32]}},
    ],
)
def test_what_a_migration_gives_is_believed_no_more_than_any_manifest(text: str, change: Fields) -> None:
    old = sealed(as_version_0(fields_of(text)) | change)
    with pytest.raises(ManifestError, match=FILE):
        parse_manifest(old, FILE)


@pytest.mark.parametrize("depth", [50, 200, 900, 5000])
def test_endless_nesting_in_an_older_one(text: str, depth: int) -> None:
    fields = as_version_0(fields_of(text))
    for name in ("file", "spec", "ties", "entries"):
        nested = "[" * depth + "]" * depth
        value = f'{{"arrays":[{nested}]}}' if name == "file" else f'{{"a":{nested}}}'
        body = sealed(fields | {name: "PLACE"}).partition(',\n"manifest_hash":')[0].replace('"PLACE"', value)
        with pytest.raises(ManifestError, match=FILE):
            parse_manifest(seal(body)[0], FILE)


@pytest.mark.parametrize("change", [{"file": None}, {"file": {"arrays": {"a": 1}}}, {"entries": 3}, {"file": "x"}])
def test_a_migration_that_meets_what_its_version_never_said(text: str, change: Fields) -> None:
    old = sealed(as_made_up(fields_of(text)) | change)
    with pytest.raises(ManifestError, match=FILE):
        parse_manifest(old, FILE, migrations={0: made_up})


def test_a_version_without_a_way_and_one_from_the_future(text: str) -> None:
    with pytest.raises(ManifestError, match="format version 1 or newer"):
        parse_manifest(sealed(as_version_0(fields_of(text))), FILE, migrations={})
    with pytest.raises(FormatVersionError) as caught:
        parse_manifest(sealed(fields_of(text) | {"version": VERSION + 1, "new": {}}), FILE)
    assert (caught.value.version, caught.value.known) == (VERSION + 1, VERSION)
