"""A save beside an older checkpoint: what has not changed is linked, and nothing is taken on trust."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.checkpoint.linking import Former
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot import Snapshot, diff
from tests.checkpoint.components import policy, tree

pytestmark = pytest.mark.skipif(not hasattr(os, "link"), reason="no hard links")


def with_policy(snapshot: Snapshot, name: str, part: Snapshot) -> Snapshot:
    container = snapshot.children["policies"]
    return replace(snapshot, children={"policies": replace(container, children={**container.children, name: part})})


def shared_files(path: Path) -> set[str]:
    """Files that have another name too."""
    return {str(each.relative_to(path)) for each in path.rglob("*.*") if each.is_file() and each.stat().st_nlink > 1}


def contents(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*.*") if each.is_file()}


@pytest.fixture(params=["hdf5", "pickle"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(backend: str) -> str:
    return {"hdf5": "state.h5", "pickle": "state.pkl"}[backend]


@pytest.fixture
def old(tmp_path: Path, backend: str) -> Path:
    return write_checkpoint(tree(3), tmp_path / "old", backend=backend)


def test_what_has_not_changed_is_linked(tmp_path: Path, old: Path, backend: str, file: str) -> None:
    changed = with_policy(tree(3), "p1", policy(7))
    new = write_checkpoint(changed, tmp_path / "new", backend=backend, previous=old)
    assert shared_files(new) == {f"policies/{name}/{each}" for name in ("p0", "p2") for each in ("manifest.json", file)}
    assert verify_checkpoint(new).ok
    assert diff(changed, read_checkpoint(new)).same
    shutil.rmtree(old)
    assert verify_checkpoint(new).ok


def test_linked_or_not_the_bytes_are_the_same(tmp_path: Path, old: Path, backend: str) -> None:
    linked = contents(write_checkpoint(tree(3), tmp_path / "linked", backend=backend, previous=old))
    written = contents(write_checkpoint(tree(3), tmp_path / "written", backend=backend))
    assert {**linked, "manifest.json": b""} == {**written, "manifest.json": b""}


def test_what_is_replaced_is_the_former_one(old: Path, backend: str, file: str) -> None:
    inodes = {name: (old / "policies" / name / file).stat().st_ino for name in ("p0", "p1", "p2")}
    write_checkpoint(with_policy(tree(3), "p1", policy(7)), old, backend=backend, if_exists="replace")
    now = {name: (old / "policies" / name / file).stat().st_ino for name in ("p0", "p1", "p2")}
    assert [now[name] == inodes[name] for name in ("p0", "p1", "p2")] == [True, False, True]
    assert shared_files(old) == set()
    assert verify_checkpoint(old).ok


def test_other_metadata_means_another_manifest_and_the_same_arrays(
    tmp_path: Path, old: Path, backend: str, file: str
) -> None:
    changed = with_policy(tree(3), "p1", replace(policy(1), metadata={"step": 3}))
    new = write_checkpoint(changed, tmp_path / "new", backend=backend, previous=old)
    assert f"policies/p1/{file}" in shared_files(new)
    assert "policies/p1/manifest.json" not in shared_files(new)
    assert read_checkpoint(new / "policies" / "p1").metadata == {"step": 3}


@pytest.mark.parametrize("place", [0, 200, -1])
def test_damage_does_not_spread(tmp_path: Path, old: Path, backend: str, file: str, place: int) -> None:
    data = bytearray((old / "policies" / "p1" / file).read_bytes())
    data[place] ^= 1
    (old / "policies" / "p1" / file).write_bytes(data)
    new = write_checkpoint(tree(3), tmp_path / "new", backend=backend, previous=old)
    assert f"policies/p1/{file}" not in shared_files(new)
    assert f"policies/p0/{file}" in shared_files(new)
    assert verify_checkpoint(new).ok


@pytest.mark.parametrize("way", ["missing", "cut", "a directory", "a lie", "a link"])
def test_a_former_one_that_is_not_whole_costs_nothing_but_writing(
    tmp_path: Path, old: Path, backend: str, file: str, way: str
) -> None:
    place = old / "policies" / "p1"
    if way == "a lie":
        # Its manifest says that its arrays are those of another one.
        shutil.copy(old / "policies" / "p0" / file, place / file)
    else:
        (place / file).unlink()
    if way == "cut":
        (place / file).write_bytes(b"x")
    if way == "a link":
        (place / file).symlink_to(shutil.copy(old / "policies" / "p1" / "manifest.json", tmp_path / "elsewhere"))
        shutil.copy(write_checkpoint(policy(1), tmp_path / "alone", backend=backend) / file, tmp_path / "elsewhere")
    if way == "a directory":
        (place / file).mkdir()
    new = write_checkpoint(tree(3), tmp_path / "new", backend=backend, previous=old)
    assert verify_checkpoint(new).ok
    assert f"policies/p1/{file}" not in shared_files(new)


def test_what_is_replaced_after_the_first_look_is_not_linked(tmp_path: Path, old: Path, backend: str) -> None:
    """Between the look at the old manifest and the link, the directory gets other files."""
    former = Former(str(old / "policies" / "p1"), "none")
    text = (old / "policies" / "p1" / "manifest.json").read_text()
    assert former._manifest
    shutil.copy(old / "policies" / "p0" / "manifest.json", old / "policies" / "p1" / "manifest.json")
    (tmp_path / "new").mkdir()
    assert not former.link_manifest(str(tmp_path / "new"), text)
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("previous", ["nothing", "file", "pickle"])
def test_a_former_one_of_another_kind_is_of_no_use(tmp_path: Path, old: Path, backend: str, previous: str) -> None:
    (tmp_path / "file").write_text("x")
    write_checkpoint(tree(3), tmp_path / "pickle", backend={"hdf5": "pickle", "pickle": "hdf5"}[backend])
    new = write_checkpoint(tree(3), tmp_path / "new", backend=backend, previous=tmp_path / previous)
    assert verify_checkpoint(new).ok
    assert {Path(each).name for each in shared_files(new)} <= {"manifest.json"}


def test_where_the_system_cannot_link_files_are_written(
    tmp_path: Path, old: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    new = write_checkpoint(tree(3), tmp_path / "new", backend=backend, previous=old)
    assert shared_files(new) == set()
    assert verify_checkpoint(new).ok


def test_an_unchanged_policy_costs_a_directory_two_links_and_no_byte(
    tmp_path: Path, old: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    written: list[int] = []
    for name in ("mkdir", "link", "write", "pwrite"):
        real = getattr(os, name)

        def call(*arguments: Any, name: str = name, real: Any = real, **more: Any) -> Any:
            calls[name] += 1
            result = real(*arguments, **more)
            if name in ("write", "pwrite"):
                written.append(result)
            return result

        monkeypatch.setattr(os, name, call)
    write_checkpoint(tree(3), tmp_path / "new", backend=backend, previous=old)
    # A stage, the container, three policies; of the container's manifest and the root's only the latter is new.
    assert calls["mkdir"] == 5
    assert calls["link"] == 3 * 2 + 1
    assert calls["write"] == 1
    assert sum(written) == (tmp_path / "new" / "manifest.json").stat().st_size


def test_a_root_without_children_links_its_arrays(tmp_path: Path, backend: str, file: str) -> None:
    old = write_checkpoint(policy(1, big=np.zeros(2_000_000)), tmp_path / "old", backend=backend)
    new = write_checkpoint(policy(1, big=np.zeros(2_000_000)), tmp_path / "new", backend=backend, previous=old)
    assert shared_files(new) == {file}
    assert verify_checkpoint(new).ok


def test_links_are_brought_to_the_disk_too(
    tmp_path: Path, old: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync

    def sync(descriptor: int) -> None:
        synced.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    new = write_checkpoint(tree(3), tmp_path / "new", backend=backend, previous=old)
    files, directories = len(contents(new)), 1 + sum(each.is_dir() for each in new.rglob("*"))
    assert len(synced) == files + directories + 1
    synced.clear()
    write_checkpoint(tree(3), tmp_path / "newer", backend=backend, previous=old, durability="none")
    assert synced == []


def test_a_component_knows_those_in_it(old: Path) -> None:
    assert Former(str(old), "none").child("policies").directory == f"{old}/policies"
