"""Checkpoints of each version, kept for good: they are read as what they are, and today's writer writes the same."""

from __future__ import annotations

import hashlib
import json
import pickle
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.reader import find_attachment, read_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.snapshot import Selection, Snapshot, component, content_hash, inference_hash, ties
from rlpipe.snapshot.identity import stored
from rlpipe.snapshot.snapshot import walk
from rlpipe.snapshot.state import arrays
from tests.golden import checkpoints as golden

VERSION = 1
GOLDEN = {name: golden.HERE / f"checkpoint_v{VERSION}_{name}" for name in golden.BACKENDS}
both = pytest.mark.parametrize("backend", golden.BACKENDS)

FINGERPRINTS = {
    "": ("b847da0dd3890509", "c43e23c0d0bc04ff"),
    "awkward": ("87147474bbd1fbf1", "cecc51f1e98c9f48"),
    "learner": ("0b5fbf7a1644e110", "b6dbb7fe46d51f9c"),
    "numbers": ("beb66c6690078c9a", "586f89af3de7a36e"),
    "policies": ("dcb1c88aad5d000d", "0fcda426536422bc"),
    "policies/p0": ("9551df7d2ddc1302", "f35316cb5a60366b"),
    "policies/p1": ("b88b5ca2a5205203", "8b5880267a28b58c"),
    "policies/pôle-2": ("93e470a190740274", "578d539ebbb986bb"),
}
"""Component -> its content and inference hash, as printed on the day that the version was frozen."""


def same(found: Any, known: Any) -> bool:
    """Whether two values are the same in type, and to the last bit."""
    if isinstance(known, np.ndarray):
        return (found.dtype, found.shape, found.tobytes()) == (known.dtype, known.shape, known.tobytes())
    if type(found) is not type(known):
        return False
    if isinstance(known, dict):
        return found.keys() == known.keys() and all(same(found[name], value) for name, value in known.items())
    if isinstance(known, (list, tuple)):
        return len(found) == len(known) and all(map(same, found, known))
    return struct.pack(">d", found) == struct.pack(">d", known) if isinstance(known, float) else found == known


def same_tree(found: Snapshot, known: Snapshot) -> bool:
    ours, theirs = dict(walk(found)), dict(walk(known))
    return ours.keys() == theirs.keys() and all(
        (ours[path].spec, ours[path].roles, ours[path].metadata) == (part.spec, part.roles, part.metadata)
        and same(ours[path].state, part.state)
        for path, part in theirs.items()
    )


@both
def test_it_is_read_as_what_it_is(backend: str) -> None:
    found = read_checkpoint(GOLDEN[backend])
    assert same_tree(found, golden.snapshot())
    assert ties(found) == ties(golden.snapshot())
    assert len(ties(found)) == 4
    report = verify_checkpoint(GOLDEN[backend])
    assert (report.ok, report.components) == (True, 8)


@both
def test_each_component_is_read_alone(backend: str) -> None:
    for path, part in walk(golden.snapshot()):
        assert same_tree(read_checkpoint(GOLDEN[backend] / path), part)
    one = read_checkpoint(GOLDEN[backend], Selection(components=("policies/pôle-2",)))
    assert same_tree(component(one, "policies/pôle-2"), component(golden.snapshot(), "policies/pôle-2"))


@both
def test_its_identities_are_those_of_then(backend: str) -> None:
    infos = {each.path: each for each in inspect_checkpoint(GOLDEN[backend]).walk()}
    assert {path: (each.content_hash[:16], each.inference_hash[:16]) for path, each in infos.items()} == FINGERPRINTS
    for path, part in walk(golden.snapshot()):
        assert (content_hash(part), inference_hash(part)) == (infos[path].content_hash, infos[path].inference_hash)


@both
def test_its_attachments(backend: str) -> None:
    for name, data in golden.ATTACHED.items():
        assert find_attachment(GOLDEN[backend], "policies/p1", f"model/{name}").read_bytes() == data


@both
def test_the_same_snapshot_gives_the_same_bytes_today(tmp_path: Path, backend: str) -> None:
    """But for the root's time, and the hash over it."""
    path = golden.write(tmp_path / "ckpt", backend)
    ours, theirs = (
        {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}
        for root in (path, GOLDEN[backend])
    )
    roots = [json.loads(files.pop("manifest.json")) for files in (ours, theirs)]
    assert ours == theirs
    for root in roots:
        del root["origin"]["created"], root["manifest_hash"]
    assert roots[0] == roots[1]


@both
def test_manifests_hash_to_what_parents_say(backend: str) -> None:
    """With nothing of rlpipe."""
    for file in GOLDEN[backend].rglob("manifest.json"):
        text = file.read_bytes().replace(b"\r\n", b"\n")
        body, _, _ = text.rpartition(b',\n"manifest_hash":')
        manifest = json.loads(text)
        assert manifest["manifest_hash"] == hashlib.sha256(body).hexdigest()
        for name, digest in manifest["children"].items():
            assert json.loads((file.parent / name / "manifest.json").read_text())["manifest_hash"] == digest


def plain_arrays(file: Path, keys: set[str]) -> dict[str, Any]:
    """The arrays of a file as pickle gives them, or h5py under these keys."""
    if file.suffix == ".pkl":
        return pickle.loads(file.read_bytes())
    with h5py.File(file) as stream:
        return {key: np.asarray(stream[key][()]) for key in keys}


@both
def test_its_array_files_are_plain_files(backend: str) -> None:
    for path, part in walk(golden.snapshot()):
        raws = {key: stored(array) for key, array in arrays(part.state).items()}
        file = GOLDEN[backend] / path / golden.BACKENDS[backend]
        assert file.exists() == bool(raws)
        found = plain_arrays(file, set(raws)) if raws else {}
        assert found.keys() == raws.keys()
        assert all(same(found[key], raw) for key, raw in raws.items())


def test_a_policy_of_version_0() -> None:
    """The last layout before the format was frozen."""
    path = golden.HERE / "checkpoint_v0"
    info = inspect_checkpoint(path)
    assert (info.version, info.fingerprint) == (0, "621a1daeeda9")
    assert content_hash(read_checkpoint(path)) == info.content_hash
    assert verify_checkpoint(path).ok
