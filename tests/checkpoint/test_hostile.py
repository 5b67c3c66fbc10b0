"""Checkpoints that mean harm: refused in words, in time and memory, whatever their hashes say."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlpipe.checkpoint.format import MAX_MANIFEST_SIZE
from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.reader import When, read_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import CheckpointError, IntegrityError, ManifestError
from tests.checkpoint.components import policy, tree
from tests.checkpoint.damage import resealed
from tests.checkpoint.texts import fields_of, sealed
from tests.fuzz.limits import Outcome, outcomes

SECRET = "the secret of another file"
W = "encoder/0/weight"
COLUMNS = ("key", "dtype", "shape", "role", "offset")
Fields = dict[str, Any]


def raw(field: str, text: str) -> Callable[[Path], None]:
    """Puts a text, whatever it is, at the place of a field's value, under a right hash."""

    def change(file: Path) -> None:
        fields = {**fields_of(file.read_text()), field: "PLACE"}
        body = sealed(fields).partition(',\n"manifest_hash":')[0].replace('"PLACE"', text)
        file.write_text(f'{body},\n"manifest_hash":"{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n')

    return change


def edited(change: Callable[[Fields], Any]) -> Callable[[Path], None]:
    return lambda file: resealed(file, lambda fields: change(fields) and None)


def array(**values: Any) -> Callable[[Path], None]:
    """Puts values into the row of an array, by the names of its columns."""

    def change(fields: Fields) -> None:
        for name, value in values.items():
            _rows(fields)[W][COLUMNS.index(name)] = value

    return edited(change)


def _rows(fields: Fields) -> dict[str, list[Any]]:
    return {row[0]: row for row in fields["file"]["arrays"]}


def renamed(old: str, new: str) -> Callable[[Path], None]:
    def change(fields: Fields) -> None:
        fields[new] = fields.pop(old)

    return edited(change)


HOSTILE: Mapping[str, Callable[[Path], Any]] = {
    "doubled name at the top": lambda file: file.write_text(file.read_text().replace("{\n", '{\n"ties":[],\n', 1)),
    "doubled name inside": raw("metadata", '{"a":1,"a":2}'),
    "doubled array": edited(lambda fields: fields["file"]["arrays"].insert(1, _rows(fields)[W])),
    "very many doubled names": raw("metadata", "{" + '"a":1,' * 300_000 + '"b":1}'),
    "very many names": raw("metadata", "{" + ",".join(f'"{n}":1' for n in range(300_000)) + "}"),
    "very many entries": raw("entries", "{" + ",".join(f'"{n}":["training",1]' for n in range(250_000)) + "}"),
    "very many lists": raw("metadata", '{"a":[' + "[]," * 700_000 + "[]]}"),
    "very many lists in the state": raw("entries", '{"a":["inference",[' + "[]," * 700_000 + "[]]]}"),
    "very many numbers": raw("entries", '{"a":["inference",[' + "1.5," * 1_500_000 + "1]]}"),
    "endless lists": raw("metadata", '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"),
    "deep lists": raw("entries", '{"a":["inference",' + "[" * 500 + "]" * 500 + "]}"),
    "deep objects": raw("entries", '{"a":["inference",[' + '{"dict":{"a":' * 500 + "1" + "}}" * 500 + "]]}"),
    "a long decimal number": raw("metadata", '{"a":' + "1" * 5_000 + "}"),
    "a long number of a size": array(offset=10**4000),
    "a long hex number": raw("entries", '{"a":["inference",{"int":"0x' + "1" * 10_000_000 + '"}]}'),
    "infinity": raw("metadata", '{"a":1e999}'),
    "not a number": raw("metadata", '{"a":NaN}'),
    "a hash of another name": renamed("xxh3", "sha1"),
    "a hash of another length": edited(lambda fields: fields["xxh3"].__setitem__(0, "0" * 64)),
    "a negative offset": array(offset=-64),
    "an offset that is a float": array(offset=64.0),
    "an offset that is true": array(offset=True),
    "an offset behind the end": array(offset=2**40),
    "very deep entries": raw(
        "entries", "{\n" + ",\n".join(f'"e{n:06}{"/a" * 40}":["inference",1]' for n in range(33_000)) + "\n}"
    ),
    "very many rows": edited(lambda fields: fields["file"].update(arrays=[[]] * 1_000_000)),
    "very many hashes": edited(lambda fields: fields["xxh3"].extend(["0" * 32] * 1_500_000)),
    "one hash too many": edited(lambda fields: fields["xxh3"].append("0" * 32)),
    "a huge shape": array(shape=[2**31, 2**31, 2**31]),
    "a huge and an empty axis": array(shape=[2**52, 0]),
    "huge axes beside an empty one": array(shape=[2**31, 0, 2**31, 2**31], offset=0),
    "very many huge axes beside an empty one": array(shape=[0] + [2**53] * 63, offset=0),
    "an axis that is too long for its items": array(shape=[2**40, 0, 2**21], offset=0),
    "a negative shape": array(shape=[-8, -4]),
    "a shape of floats": array(shape=[8.0, 4.0]),
    "a dtype that runs code": array(dtype="object"),
    "arrays over each other": edited(lambda fields: _rows(fields)["vf/weight"].__setitem__(4, _rows(fields)[W][4])),
    "a file elsewhere": edited(lambda fields: fields["file"].update(name="../../secret")),
    "a file elsewhere by its whole path": edited(lambda fields: fields["file"].update(name="/etc/passwd")),
    "a manifest for an array file": edited(lambda fields: fields["file"].update(name="manifest.json")),
    "a file of another size": edited(lambda fields: fields["file"].update(size=2**50)),
    "very many arrays in one place": edited(
        lambda fields: fields["file"].update(arrays=[[f"a{n:06}", "int8", [1], "inference", 64] for n in range(60_000)])
    ),
    "very many components": edited(
        lambda fields: fields["children"].update({f"p{n:06}": "0" * 64 for n in range(350_000)})
    ),
    "very many attachments": edited(
        lambda fields: fields["attachments"].update({f"model/{n:06}": [1, "0" * 32] for n in range(350_000)})
    ),
    "a component elsewhere": edited(lambda fields: fields["children"].update({"..": "0" * 64})),
    "a component by a path": edited(lambda fields: fields["children"].update({"a/../../b": "0" * 64})),
    "a component by its whole path": edited(lambda fields: fields["children"].update({"/tmp": "0" * 64})),
    "a component that is not there": edited(lambda fields: fields["children"].update({"p": "0" * 64})),
    "another format": edited(lambda fields: fields.update(format="other")),
    "a newer version": edited(lambda fields: fields.update(version=999)),
    "a negative version": edited(lambda fields: fields.update(version=-1)),
    "a version that is a float": edited(lambda fields: fields.update(version=1.0)),
    "a version that is true": edited(lambda fields: fields.update(version=True)),
    "a version that is text": edited(lambda fields: fields.update(version="1")),
    "an endless file": lambda file: os.truncate(file, MAX_MANIFEST_SIZE + 1),
    "another encoding": lambda file: file.write_bytes(file.read_text().encode("utf-16")),
    "nothing": lambda file: file.write_bytes(b""),
}
"""Name -> what is done to the manifest of a policy."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    folder = tmp_path_factory.mktemp("hostile")
    original = write_checkpoint(policy(1), folder / "original")
    (folder / "secret").write_text(SECRET)
    paths = []
    for number, change in enumerate(HOSTILE.values()):
        paths.append(shutil.copytree(original, folder / str(number)))
        change(paths[-1] / "manifest.json")
    return dict(zip(HOSTILE, outcomes("checkpoint", paths), strict=True))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_manifests_are_refused_in_time_and_memory(found: dict[str, Outcome], name: str) -> None:
    outcome = found[name]
    assert outcome.error in ("ManifestError", "IntegrityError", "FormatVersionError"), outcome
    assert outcome.is_typed, outcome
    assert SECRET not in outcome.text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_checkpoint(tree(2), tmp_path / "ckpt")


def linked(file: Path, target: Path) -> None:
    file.unlink()
    file.symlink_to(target)


@pytest.mark.parametrize("stranger", ["p0/below", "p0/../p1", "p0/p0/p0", "p0//", "p0/."])
def test_a_tie_to_a_component_that_is_not_there(path: Path, stranger: str) -> None:
    container = path / "policies"
    resealed(container / "manifest.json", lambda fields: fields.update(ties=[[[stranger, W], ["p1", W]]]))
    whens: tuple[When, ...] = ("verify", "later", "none")
    for when in whens:
        with pytest.raises(IntegrityError, match="lists a tie"):
            read_checkpoint(container, arrays=when)
    assert not verify_checkpoint(container).ok


@pytest.mark.skipif(os.name == "nt", reason="symbolic links of POSIX")
class TestSymbolicLinks:
    """They are followed, as some hubs lay out their caches so; what they lead to is checked like any file."""

    def test_to_the_same_bytes(self, path: Path, tmp_path: Path) -> None:
        known = read_checkpoint(path)
        for number, file in enumerate(sorted(each for each in path.rglob("*") if each.is_file())):
            shutil.move(file, tmp_path / f"blob{number}")
            file.symlink_to(tmp_path / f"blob{number}")
        assert read_checkpoint(path).children.keys() == known.children.keys()
        assert verify_checkpoint(path).ok

    @pytest.mark.parametrize("name", ["state.h5", "manifest.json"])
    @pytest.mark.parametrize("target", ["secret", "/dev/zero", "/dev/full", ".", "/proc/self/mem", "itself", "nothing"])
    def test_to_anything_else(self, path: Path, tmp_path: Path, name: str, target: str) -> None:
        (tmp_path / "secret").write_text(SECRET * 1000)
        file = path / "policies" / "p1" / name
        linked(file, {"secret": tmp_path / "secret", "itself": file}.get(target, Path(target)))
        with pytest.raises((ManifestError, IntegrityError)) as caught:
            read_checkpoint(path)
        assert SECRET not in str(caught.value)
        report = verify_checkpoint(path)
        assert not report.ok
        assert SECRET not in str(report.findings)

    def test_a_component_that_is_the_one_above(self, path: Path) -> None:
        shutil.rmtree(path / "policies" / "p1")
        (path / "policies" / "p1").symlink_to(path / "policies")
        for read in (read_checkpoint, inspect_checkpoint):
            with pytest.raises(CheckpointError):
                read(path)
        assert not verify_checkpoint(path).ok


@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
@pytest.mark.parametrize("name", ["state.h5", "manifest.json"])
def test_a_pipe_does_not_stop_the_reader(path: Path, name: str) -> None:
    file = path / "policies" / "p0" / name
    file.unlink()
    os.mkfifo(file)
    with pytest.raises((ManifestError, IntegrityError)):
        read_checkpoint(path)
    assert not verify_checkpoint(path).ok
