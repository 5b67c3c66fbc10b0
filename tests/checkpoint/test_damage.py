"""Whatever happens to a file, reading it and verifying find it, and nothing live is touched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import CheckpointError, CheckpointNotFoundError
from rlpipe.snapshot import Selection, Snapshot, Spec, component, diff
from rlpipe.snapshot.state import equal
from tests.checkpoint.components import Team, net, team, tree
from tests.checkpoint.damage import ANY_FILE, files_of, put_back, resealed, swapped

BACKENDS = {"hdf5": "state.h5", "pickle": "state.pkl"}
both = pytest.mark.parametrize("backend", BACKENDS)
P1 = Selection(components=("policies/p1",))


def live() -> Team:
    made = team(7, 8)
    made.epsilon = 0.25
    return made


class Attempt:
    """Reads a damaged checkpoint in every way, and looks at what became of a live object."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.live = live()

    def require_found(self) -> None:
        with pytest.raises(CheckpointError):
            read_checkpoint(self.path)
        with pytest.raises(CheckpointError):
            self.live.restore_from_path(self.path)
        assert diff(snapshot_of(live()), snapshot_of(self.live)).same
        assert all(each.calls == [] for each in self.live.nets.values())
        assert not verify_checkpoint(self.path).ok


@pytest.fixture
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    backend = request.getfixturevalue("backend")
    path = Path(team(1, 2).save_to_path(tmp_path / "ckpt", backend=backend))
    shutil.copytree(path, tmp_path / "original")
    return path


@both
@pytest.mark.parametrize("damage", ANY_FILE)
def test_any_damage_to_any_file(path: Path, backend: str, damage: str) -> None:
    attempt = Attempt(path)
    files = list(files_of(path))
    assert len(files) == 5
    for file in files:
        ANY_FILE[damage](file)
        attempt.require_found()
        findings = verify_checkpoint(path).findings
        name = file.relative_to(path).parent.as_posix().strip(".")
        assert {each.component for each in findings} == {name}, file
        put_back(path.parent / "original", path)
    assert verify_checkpoint(path).ok


@both
def test_files_of_two_components_swapped(path: Path, backend: str) -> None:
    for name in ("manifest.json", BACKENDS[backend]):
        swapped(path / "p0" / name, path / "p1" / name)
        Attempt(path).require_found()
        assert {each.component for each in verify_checkpoint(path).findings} == {"p0", "p1"}
        put_back(path.parent / "original", path)
    swapped(path / "p0", path / "p1")
    Attempt(path).require_found()


@both
def test_stale_files(path: Path, backend: str, tmp_path: Path) -> None:
    """Files of an older save of the same object: each is right in itself."""
    old = Path(team(3, 4).save_to_path(tmp_path / "old", backend=backend))
    for stale in ("manifest.json", f"p0/{BACKENDS[backend]}", "p1/manifest.json"):
        shutil.copy(old / stale, path / stale)
        Attempt(path).require_found()
        put_back(path.parent / "original", path)
    shutil.rmtree(path / "p1")
    shutil.copytree(old / "p1", path / "p1")
    Attempt(path).require_found()


def of_another_class(fields: dict[str, Any]) -> None:
    fields["spec"]["class"] = "tests.checkpoint.components.SharingTeam"


def with_another_value(fields: dict[str, Any]) -> None:
    fields["entries"] = {key: [role, 99] for key, (role, _) in fields["entries"].items()}


def with_another_role(fields: dict[str, Any]) -> None:
    for entry in fields["entries"].values():
        entry[0] = {"training": "inference", "inference": "training"}[entry[0]]


@both
@pytest.mark.parametrize("edit", [of_another_class, with_another_value, with_another_role])
def test_an_edited_manifest_with_a_right_hash(path: Path, backend: str, edit: Callable[[dict[str, Any]], None]) -> None:
    """Of a component, the manifest above remembers the hash; of the root, its own identity does not fit."""
    for file in (path / "manifest.json", path / "p0" / "manifest.json"):
        resealed(file, edit)
        Attempt(path).require_found()
        put_back(path.parent / "original", path)


@both
def test_only_what_is_read_has_to_be_whole(tmp_path: Path, backend: str) -> None:
    path = write_checkpoint(tree(3), tmp_path / "ckpt", backend=backend)
    known = component(read_checkpoint(path, P1), "policies/p1").state
    for damage in ANY_FILE.values():
        shutil.copytree(path, tmp_path / "copy")
        for file in (tmp_path / "copy" / "policies" / "p0").iterdir():
            damage(file)
        assert equal(component(read_checkpoint(tmp_path / "copy", P1), "policies/p1").state, known)
        shutil.rmtree(tmp_path / "copy")


def tiny() -> Snapshot:
    return Snapshot(Spec("a.B"), {"n": 1, "w": np.arange(2, dtype="f4")}, {"n": "training", "w": "inference"})


@pytest.mark.slow
@both
def test_every_single_bit(tmp_path: Path, backend: str) -> None:
    """All of them, in both files; some are also verified."""
    path = write_checkpoint(tiny(), tmp_path / "ckpt", backend=backend)
    for file in files_of(path):
        data = file.read_bytes()
        with file.open("r+b", buffering=0) as stream:
            for bit in range(8 * len(data)):
                place = bit // 8
                os.pwrite(stream.fileno(), bytes([data[place] ^ 1 << bit % 8]), place)
                with pytest.raises(CheckpointError):
                    read_checkpoint(path)
                assert bit % 19 or not verify_checkpoint(path).ok, bit
                os.pwrite(stream.fileno(), data[place : place + 1], place)
    assert verify_checkpoint(path).ok


@both
@pytest.mark.parametrize("content", [b"", b"\0" * 64, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"])
def test_info_and_hashes_need_no_array_file(path: Path, backend: str, content: bytes) -> None:
    known = inspect_checkpoint(path).content_hash
    described = read_checkpoint(path, arrays="none")
    for file in path.rglob(BACKENDS[backend]):
        file.write_bytes(content)
        if not content:
            file.unlink()
    assert inspect_checkpoint(path).content_hash == known
    assert diff(described, read_checkpoint(path, arrays="none")).fits


@both
def test_a_pointer_of_git_lfs_says_how_to_fetch_the_file(path: Path, backend: str) -> None:
    for file in files_of(path):
        ANY_FILE["made_a_pointer_of_lfs"](file)
        with pytest.raises(CheckpointError, match="git lfs pull"):
            read_checkpoint(path)
        put_back(path.parent / "original", path)
    for file in path.rglob(BACKENDS[backend]):
        ANY_FILE["made_a_pointer_of_lfs"](file)
    assert all("Git LFS pointer" in each.message for each in verify_checkpoint(path).findings)


def test_every_component_lost(tmp_path: Path) -> None:
    path = Path(Team({"p0": net(1)}).save_to_path(tmp_path / "ckpt"))
    shutil.rmtree(path / "p0")
    Attempt(path).require_found()
    shutil.rmtree(path)
    with pytest.raises(CheckpointNotFoundError):
        verify_checkpoint(path)
