from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from rlpipe.checkpoint.array_info import ArrayInfo
from rlpipe.checkpoint.reader import find_component, read_checkpoint, read_manifest
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import (
    CheckpointNotFoundError,
    FormatVersionError,
    IntegrityError,
    ManifestError,
    SelectionError,
    TieError,
)
from rlpipe.snapshot import Selection, Snapshot, Spec, component, content_hash, diff, fingerprint, select, ties
from rlpipe.snapshot.snapshot import walk
from rlpipe.snapshot.state import arrays, equal
from tests.benchmarks.counting import counted
from tests.checkpoint.components import policy, tree
from tests.checkpoint.conftest import OpenedFiles
from tests.checkpoint.texts import resealed

P1 = Selection(components=("policies/p1",))
INFERENCE = Selection(roles=frozenset({"inference"}))


@pytest.fixture(params=["hdf5", "pickle"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_checkpoint(tree(3), tmp_path / "ckpt", backend=request.param)


class TestSubsets:
    def test_opens_the_subset_and_the_manifests_on_the_path(self, path: Path, opened_files: OpenedFiles) -> None:
        with opened_files.below(path) as opened:
            read_checkpoint(path, P1)
        state = next(each.name for each in (path / "policies" / "p1").iterdir() if each.stem == "state")
        assert opened == [
            "manifest.json",
            "policies/manifest.json",
            "policies/p1/manifest.json",
            f"policies/p1/{state}",
        ]

    def test_opens_each_file_of_the_whole_once(self, path: Path, opened_files: OpenedFiles) -> None:
        with opened_files.below(path) as opened:
            read_checkpoint(path)
        assert opened == sorted(str(each.relative_to(path)) for each in path.rglob("*.*") if each.is_file())

    def test_describing_opens_no_array_file(self, path: Path, opened_files: OpenedFiles) -> None:
        with opened_files.below(path) as opened:
            found = read_checkpoint(path, arrays="none")
        assert {Path(each).name for each in opened} == {"manifest.json"}
        info = component(found, "policies/p1").state["encoder"]["0"]["weight"]
        assert isinstance(info, ArrayInfo)
        assert (info.dtype, info.shape, info.nbytes) == (np.dtype(np.float32), (8, 4), 128)

    def test_inference_alone_reads_no_training_array(self, path: Path) -> None:
        for each in path.glob("policies/*/state.*"):
            manifest = json.loads((each.parent / "manifest.json").read_text())
            offset = next(row[4] for row in manifest["file"]["arrays"] if row[0] == "vf/weight")
            data = bytearray(each.read_bytes())
            data[offset] ^= 1
            each.write_bytes(data)
        found = read_checkpoint(path, INFERENCE)
        assert "vf" not in component(found, "policies/p1").state
        with pytest.raises(IntegrityError, match="vf/weight"):
            read_checkpoint(path)

    def test_missing_siblings_stop_nothing(self, path: Path) -> None:
        shutil.rmtree(path / "policies" / "p0")
        (path / "policies" / "p2" / "manifest.json").unlink()
        found = read_checkpoint(path, P1)
        assert equal(component(found, "policies/p1").state, policy(1).state)
        with pytest.raises(IntegrityError, match="policies/p0 is missing"):
            read_checkpoint(path)

    def test_a_part_of_a_container_is_not_whole(self, path: Path) -> None:
        found = read_checkpoint(path, P1)
        assert [each.whole for each in (found, found.children["policies"], component(found, "policies/p1"))] == [
            False,
            False,
            True,
        ]

    def test_keys(self, path: Path) -> None:
        found = read_checkpoint(path, Selection(components=("policies/p1",), keys=("encoder/*",)))
        assert component(found, "policies/p1").state.keys() == {"encoder"}

    @pytest.mark.parametrize("pattern", ["policies/p9", "p1", "policies/p1/deeper", "polices/*"])
    def test_a_pattern_that_matches_nothing(self, path: Path, pattern: str) -> None:
        with pytest.raises(SelectionError, match="policies"):
            read_checkpoint(path, Selection(components=(pattern,)))


class TestComponentsAreCheckpoints:
    def test_each_directory_reads_alone(self, path: Path) -> None:
        assert fingerprint(read_checkpoint(path / "policies" / "p1")) == fingerprint(policy(1))
        assert diff(tree(3).children["policies"], read_checkpoint(path / "policies")).same

    def test_copied_away_and_renamed(self, path: Path, tmp_path: Path) -> None:
        shutil.copytree(path / "policies" / "p1", tmp_path / "elsewhere" / "other name")
        assert diff(policy(1), read_checkpoint(tmp_path / "elsewhere" / "other name")).same

    def test_a_moved_checkpoint(self, path: Path, tmp_path: Path) -> None:
        path.rename(tmp_path / "moved")
        assert diff(tree(3), read_checkpoint(tmp_path / "moved")).same

    def test_copied_in_by_hand_it_is_ignored_with_a_note(self, path: Path, caplog: pytest.LogCaptureFixture) -> None:
        shutil.copytree(path / "policies" / "p1", path / "policies" / "guest")
        with caplog.at_level(logging.WARNING):
            found = read_checkpoint(path)
        assert sorted(found.children["policies"].children) == ["p0", "p1", "p2"]
        assert "guest is not listed" in caplog.text

    def test_in_the_place_of_another_it_is_refused(self, path: Path) -> None:
        shutil.rmtree(path / "policies" / "p0")
        shutil.copytree(path / "policies" / "p1", path / "policies" / "p0")
        with pytest.raises(IntegrityError, match="policies/p0 is not the one that was saved here"):
            read_checkpoint(path)
        read_checkpoint(path, P1)

    def test_find_component(self, path: Path) -> None:
        assert find_component(path, "policies/p1") == path / "policies" / "p1"
        assert find_component(path, "") == path
        with pytest.raises(SelectionError, match="did you mean p1"):
            find_component(path, "policies/pp1")

    def test_read_manifest(self, path: Path) -> None:
        manifest = read_manifest(path / "policies" / "p1")
        assert manifest.content_hash == content_hash(policy(1))
        assert manifest.role_of("history/2") == "inference"


class TestTies:
    SHARED = np.arange(5.0)

    def written(self, tmp_path: Path) -> Path:
        return write_checkpoint(tree(3, shared=self.SHARED), tmp_path / "ckpt")

    def test_what_was_one_is_one_again(self, tmp_path: Path) -> None:
        policies = read_checkpoint(self.written(tmp_path)).children["policies"].children
        assert policies["p0"].state["shared"] is policies["p1"].state["shared"]
        assert ties(read_checkpoint(tmp_path / "ckpt")) == ties(tree(3, shared=self.SHARED))

    def test_inside_a_component(self, tmp_path: Path) -> None:
        path = write_checkpoint(policy(0, a=self.SHARED, z=[self.SHARED]), tmp_path / "ckpt")
        found = read_checkpoint(path).state
        assert found["a"] is found["z"][0]

    def test_a_part_of_a_tied_set_names_the_partners(self, tmp_path: Path) -> None:
        with pytest.raises(TieError, match="policies/p1/shared with policies/p0/shared, policies/p2/shared"):
            read_checkpoint(self.written(tmp_path), P1)

    def test_untie(self, tmp_path: Path) -> None:
        found = read_checkpoint(self.written(tmp_path), Selection(components=("policies/p1",), ties="untie"))
        assert component(found, "policies/p1").state["shared"].tolist() == self.SHARED.tolist()

    def test_a_part_without_the_tied_array(self, tmp_path: Path) -> None:
        read_checkpoint(self.written(tmp_path), Selection(components=("policies/p1",), keys=("encoder",)))

    def test_a_lone_component_is_not_tied(self, tmp_path: Path) -> None:
        assert read_checkpoint(self.written(tmp_path) / "policies" / "p1").state["shared"].tolist() == [0, 1, 2, 3, 4]

    def test_a_container_takes_its_ties_along(self, tmp_path: Path) -> None:
        shutil.copytree(self.written(tmp_path) / "policies", tmp_path / "away")
        policies = read_checkpoint(tmp_path / "away").children
        assert policies["p0"].state["shared"] is policies["p2"].state["shared"]

    @pytest.mark.parametrize(
        "tie", [[["p0", "shared"], ["p1", "encoder/0/bias"]], [["p0", "shared"], ["p1", "nothing"]]]
    )
    def test_a_tie_between_different_arrays_is_refused(self, tmp_path: Path, tie: Any) -> None:
        path = self.written(tmp_path)
        resealed(path / "policies" / "manifest.json", ties=[tie])
        with pytest.raises(IntegrityError, match="not the same"):
            read_checkpoint(path / "policies")


class TestWhatIsNoCheckpoint:
    @pytest.mark.parametrize("read", [read_checkpoint, read_manifest])
    def test_nothing(self, tmp_path: Path, read: Any) -> None:
        with pytest.raises(CheckpointNotFoundError) as caught:
            read(tmp_path / "nothing")
        assert caught.value.found == "nothing"

    def test_an_empty_directory(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointNotFoundError) as caught:
            read_checkpoint(tmp_path)
        assert caught.value.found == "an empty directory"

    def test_another_directory(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("x")
        with pytest.raises(CheckpointNotFoundError) as caught:
            read_checkpoint(tmp_path)
        assert caught.value.found == "a directory with notes.txt"

    def test_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(CheckpointNotFoundError) as caught:
            read_checkpoint(tmp_path / "file")
        assert caught.value.found == "a file"

    @pytest.mark.parametrize("left", ["policies", "policies/p1"])
    def test_half_of_one(self, path: Path, left: str) -> None:
        directory = path if left == "policies" else path / "policies" / "p1"
        (directory / "manifest.json").unlink()
        with pytest.raises(CheckpointNotFoundError, match="is not whole"):
            read_checkpoint(directory)

    def test_a_newer_version_names_both_numbers(self, path: Path) -> None:
        resealed(path / "manifest.json", version=7, something_new={})
        with pytest.raises(FormatVersionError, match="version 1 or older") as caught:
            read_checkpoint(path)
        assert (caught.value.version, caught.value.known) == (7, 1)

    def test_a_git_lfs_pointer(self, path: Path) -> None:
        (path / "manifest.json").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
        with pytest.raises(ManifestError, match="git lfs pull"):
            read_checkpoint(path)

    def test_a_manifest_that_is_a_directory(self, path: Path) -> None:
        (path / "manifest.json").unlink()
        (path / "manifest.json").mkdir()
        with pytest.raises(ManifestError, match=r"manifest\.json"):
            read_checkpoint(path)

    @pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
    def test_a_manifest_that_is_a_pipe(self, path: Path) -> None:
        (path / "manifest.json").unlink()
        os.mkfifo(path / "manifest.json")
        with pytest.raises(ManifestError, match="regular file"):
            read_checkpoint(path)


def test_line_endings_rewritten_by_git_do_not_matter(path: Path) -> None:
    for each in path.rglob("manifest.json"):
        each.write_bytes(each.read_bytes().replace(b"\n", b"\r\n"))
    assert diff(tree(3), read_checkpoint(path)).same


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="modes do not stop this user")
def test_a_read_only_checkpoint(path: Path) -> None:
    for each in (path, *path.rglob("*")):
        each.chmod(0o555 if each.is_dir() else 0o444)
    assert diff(tree(3), read_checkpoint(path)).same


def test_a_stale_identity_is_refused(path: Path) -> None:
    resealed(path / "policies" / "p1" / "manifest.json", inference_hash="0" * 64)
    with pytest.raises(IntegrityError, match="another policy"):
        read_checkpoint(path / "policies" / "p1")


def test_selecting_after_reading_everything_is_the_same(path: Path) -> None:
    selection = Selection(components=("policies/p[12]",), roles=frozenset({"inference"}))
    assert diff(select(read_checkpoint(path), selection), read_checkpoint(path, selection)).same


@pytest.mark.parametrize("when", ["verify", "later"])
def test_what_was_read_is_let_go_at_once(tmp_path: Path, when: Literal["verify", "later"]) -> None:
    path = write_checkpoint(tree(2), tmp_path / "ckpt", durability="none")
    gc.disable()
    try:
        found = read_checkpoint(path, arrays=when)
        held = [weakref.ref(array) for _, part in walk(found) for array in arrays(part.state).values()]
        del found
        assert [each() for each in held] == [None] * len(held)
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(os, "pread"), reason="reads at a place")
def test_a_component_costs_two_files_and_one_look(tmp_path: Path) -> None:
    path = write_checkpoint(tree(5), tmp_path / "ckpt")
    with counted("open", "pread", "close", "stat", "fstat", "read", "scandir") as calls:
        found = read_checkpoint(path)
    files = sum(1 for each in path.rglob("*") if each.is_file())
    looks = len(list(walk(found))) + 1  # One more tells whether the checkpoint is replaced meanwhile.
    counts = {name: len(results) for name, results in calls.items() if results}
    assert counts == {"open": files, "pread": files, "close": files, "stat": looks}


def test_snapshots_share_nothing_that_can_be_changed(tmp_path: Path) -> None:
    part = replace(
        policy(1, steps=[{"a": [1]}], more={}),
        spec=Spec("some.Policy", {"layers": [8, {"act": []}]}, {"inference_only": False}),
        metadata={"notes": {"seen": [1]}},
    )
    inside = Snapshot(Spec("some.Box"), children={"p0": part, "p1": part})
    path = write_checkpoint(Snapshot(Spec("some.Algorithm"), children={"policies": inside}), tmp_path / "ckpt")
    known = inspectable(read_checkpoint(path))
    for _ in range(2):
        for _, each in walk(read_checkpoint(path)):
            for mapping in (each.spec.config, each.spec.options, each.metadata, each.state, each.roles, each.children):
                spoil(mapping)
        assert inspectable(read_checkpoint(path)) == known


def spoil(value: Any) -> None:
    """Change everything in a value that can be changed."""
    inside = [*value.values()] if isinstance(value, dict) else [*value]
    for each in inside:
        if isinstance(each, (dict, list)):
            spoil(each)
    value.clear()


def inspectable(snapshot: Snapshot) -> Any:
    """All that a snapshot says, as text that later changes do not reach."""
    return [
        (path, str(part.spec), str(part.state), str(part.roles), str(part.metadata), sorted(part.children))
        for path, part in walk(snapshot)
    ]
