from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xxhash

from rlpipe.checkpoint import writer
from rlpipe.checkpoint.format import MAX_LISTED
from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import CheckpointError, CheckpointExistsError, IdError, ManifestError, UnsupportedStateError
from rlpipe.snapshot import Snapshot, Spec, content_hash, inference_hash
from rlpipe.snapshot.state import State, arrays, entries
from tests.checkpoint.components import policy, tree


def of(state: State, **more: Any) -> Snapshot:
    return Snapshot(Spec("rlpipe.Any"), state, dict.fromkeys(entries(state), "inference"), **more)


def files(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


def test_the_files_of_a_tree(tmp_path: Path) -> None:
    path = write_checkpoint(tree(2), tmp_path / "ckpt")
    assert files(path) == [
        "manifest.json",
        "policies/manifest.json",
        "policies/p0/manifest.json",
        "policies/p0/state.h5",
        "policies/p1/manifest.json",
        "policies/p1/state.h5",
    ]


def test_raw_h5py_reads_every_array(tmp_path: Path) -> None:
    snapshot = policy(1)
    write_checkpoint(snapshot, tmp_path / "ckpt")
    with h5py.File(tmp_path / "ckpt" / "state.h5", "r") as file:
        assert np.array_equal(file["encoder/0/weight"][:], snapshot.state["encoder"]["0"]["weight"])
        assert np.array_equal(file["history/2"][:], snapshot.state["history"][2])


def test_raw_pickle_reads_every_array(tmp_path: Path) -> None:
    snapshot = policy(1)
    write_checkpoint(snapshot, tmp_path / "ckpt", backend="pickle")
    found = pickle.loads((tmp_path / "ckpt" / "state.pkl").read_bytes())
    assert sorted(found) == ["encoder/0/bias", "encoder/0/weight", "history/2", "vf/weight"]
    assert np.array_equal(found["vf/weight"], snapshot.state["vf"]["weight"])


@pytest.mark.parametrize("name", ["state.h5", "state.pkl"])
def test_the_manifest_says_where_the_bytes_are(tmp_path: Path, name: str) -> None:
    snapshot = policy(1)
    write_checkpoint(snapshot, tmp_path / "ckpt", backend={"state.h5": "hdf5", "state.pkl": "pickle"}[name])
    manifest = json.loads((tmp_path / "ckpt" / "manifest.json").read_text())
    data = (tmp_path / "ckpt" / name).read_bytes()
    rows = {row[0]: row[1:] for row in manifest["file"]["arrays"]}
    digests = dict(zip(rows, manifest["xxh3"], strict=True))
    assert rows["encoder/0/weight"][:3] == ["float32", [8, 4], "inference"]
    assert rows["vf/weight"][2] == "training"
    frame = bytearray(data)
    for key, array in arrays(snapshot.state).items():
        raw = data[rows[key][3] : rows[key][3] + array.nbytes]
        assert raw == array.tobytes()
        assert digests[key] == xxhash.xxh3_128_hexdigest(raw)
    for key, array in sorted(arrays(snapshot.state).items(), key=lambda item: -rows[item[0]][3]):
        del frame[rows[key][3] : rows[key][3] + array.nbytes]
    assert manifest["file"]["frame"] == xxhash.xxh3_128_hexdigest(frame)
    assert manifest["file"]["size"] == len(data)
    assert (manifest["format"], manifest["version"]) == ("rlpipe-checkpoint", 1)
    assert manifest["content_hash"] == content_hash(snapshot)
    assert manifest["inference_hash"] == inference_hash(snapshot)


def test_only_the_root_has_time_and_provenance(tmp_path: Path) -> None:
    path = write_checkpoint(tree(1), tmp_path / "ckpt", provenance={"task": "save"})
    origins = [json.loads(each.read_text())["origin"] for each in sorted(path.rglob("manifest.json"))]
    assert [bool(origin) for origin in origins] == [True, False, False]
    assert origins[0]["provenance"] == {"task": "save"}
    assert origins[0]["created"].endswith("Z")


@pytest.mark.parametrize("backend", ["hdf5", "pickle"])
def test_equal_state_gives_equal_child_directories(tmp_path: Path, backend: str) -> None:
    one, two = (write_checkpoint(tree(2), tmp_path / name, backend=backend) for name in ("one", "two"))
    inside = [name for name in files(one) if name != "manifest.json"]
    assert {name: (one / name).read_bytes() for name in inside} == {name: (two / name).read_bytes() for name in inside}


def test_a_component_does_not_know_its_name(tmp_path: Path) -> None:
    for name in ("here", "there"):
        write_checkpoint(of({}, children={name: policy(1)}), tmp_path / f"ckpt-{name}")
    one, two = tmp_path / "ckpt-here" / "here", tmp_path / "ckpt-there" / "there"
    assert all((one / name).read_bytes() == (two / name).read_bytes() for name in files(one))


def test_no_array_no_file(tmp_path: Path) -> None:
    path = write_checkpoint(of({"n": 1, "text": "x"}), tmp_path / "ckpt")
    assert files(path) == ["manifest.json"]


def test_parents_are_made(tmp_path: Path) -> None:
    path = write_checkpoint(of({}), tmp_path / "a" / "b" / "ckpt")
    assert path.is_dir()


def test_a_tied_array_is_stored_once(tmp_path: Path) -> None:
    array = np.arange(1000.0)
    path = write_checkpoint(of({"a": array, "b": {"c": array}}), tmp_path / "ckpt")
    assert (path / "state.h5").stat().st_size < 1.3 * array.nbytes
    manifest = json.loads((path / "manifest.json").read_text())
    rows = manifest["file"]["arrays"]
    assert [row[0] for row in rows] == ["a", "b/c"]
    assert rows[0][1:] == rows[1][1:]


def test_a_tied_array_lies_with_its_inference_name(tmp_path: Path) -> None:
    array = np.arange(10.0)
    snapshot = Snapshot(Spec("rlpipe.Any"), {"a": array, "b": array}, {"a": "training", "b": "inference"})
    path = write_checkpoint(snapshot, tmp_path / "ckpt")
    rows = json.loads((path / "manifest.json").read_text())["file"]["arrays"]
    assert [row[3] for row in rows] == ["training", "inference"]
    assert inspect_checkpoint(path).arrays[0].tied_to == "b"


def test_each_component_keeps_its_own_copy_of_a_shared_array(tmp_path: Path) -> None:
    path = write_checkpoint(tree(2, shared=np.arange(3)), tmp_path / "ckpt")
    for name in ("p0", "p1"):
        with h5py.File(path / "policies" / name / "state.h5", "r") as file:
            assert file["shared"][:].tolist() == [0, 1, 2]
    manifest = json.loads((path / "policies" / "manifest.json").read_text())
    assert manifest["ties"] == [[["p0", "shared"], ["p1", "shared"]]]


class TestWhatIsThereAlready:
    def test_nothing_is_overwritten_without_leave(self, tmp_path: Path) -> None:
        write_checkpoint(policy(1), tmp_path / "ckpt")
        with pytest.raises(CheckpointExistsError, match="if_exists=replace"):
            write_checkpoint(policy(2), tmp_path / "ckpt")
        assert read_checkpoint(tmp_path / "ckpt").state["steps"] == 1
        assert names(tmp_path) == ["ckpt"]

    def test_a_checkpoint_is_replaced(self, tmp_path: Path) -> None:
        write_checkpoint(tree(3), tmp_path / "ckpt")
        write_checkpoint(policy(2), tmp_path / "ckpt", if_exists="replace")
        assert read_checkpoint(tmp_path / "ckpt").state["steps"] == 2
        assert files(tmp_path / "ckpt") == ["manifest.json", "state.h5"]
        assert names(tmp_path) == ["ckpt"]

    @pytest.mark.parametrize("if_exists", ["error", "replace"])
    def test_an_empty_directory_counts_as_nothing(self, tmp_path: Path, if_exists: Any) -> None:
        (tmp_path / "ckpt").mkdir()
        write_checkpoint(policy(1), tmp_path / "ckpt", if_exists=if_exists)
        assert read_checkpoint(tmp_path / "ckpt").state["steps"] == 1

    @pytest.mark.parametrize("if_exists", ["error", "replace"])
    def test_other_things_are_never_replaced(self, tmp_path: Path, if_exists: Any) -> None:
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes" / "thesis.txt").write_text("precious")
        (tmp_path / "file").write_text("precious")
        for name in ("notes", "file"):
            with pytest.raises(CheckpointExistsError, match="is no checkpoint") as caught:
                write_checkpoint(policy(1), tmp_path / name, if_exists=if_exists)
            assert caught.value.fix == "choose another path"
        assert (tmp_path / "notes" / "thesis.txt").read_text() == (tmp_path / "file").read_text() == "precious"

    @pytest.mark.parametrize("if_exists", ["error", "replace"])
    @pytest.mark.parametrize("name", ["policies", "policies/p1"])
    def test_a_component_of_another_checkpoint_is_never_replaced(
        self, tmp_path: Path, if_exists: Any, name: str
    ) -> None:
        path = write_checkpoint(tree(2), tmp_path / "ckpt")
        (tmp_path / "link").symlink_to(path)
        for place in (path / name, tmp_path / "link" / name):
            with pytest.raises(CheckpointExistsError, match=f"{name}, a component that {path} lists"):
                write_checkpoint(policy(7), place, if_exists=if_exists)
        assert verify_checkpoint(path).ok

    def test_beside_the_components_of_a_checkpoint_and_around_a_damaged_one(self, tmp_path: Path) -> None:
        path = write_checkpoint(tree(2), tmp_path / "ckpt")
        write_checkpoint(policy(7), path / "policies" / "p7")
        assert verify_checkpoint(path).notes
        (path / "policies" / "manifest.json").write_text("{}")
        write_checkpoint(policy(7), path / "policies" / "p1", if_exists="replace")

    def test_another_programs_manifest_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "app").mkdir()
        (tmp_path / "app" / "manifest.json").write_text('{"name": "a web app"}')
        with pytest.raises(CheckpointExistsError, match="is no checkpoint"):
            write_checkpoint(policy(1), tmp_path / "app", if_exists="replace")
        assert names(tmp_path / "app") == ["manifest.json"]

    @pytest.mark.parametrize("name", ["notes.txt", "logs/events", "state.h5.bak", "policies.txt"])
    def test_what_else_lies_in_a_checkpoint_is_not_lost(self, tmp_path: Path, name: str) -> None:
        path = write_checkpoint(tree(1), tmp_path / "ckpt")
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("precious")
        with pytest.raises(CheckpointExistsError, match="what else lies there") as caught:
            write_checkpoint(tree(2), path, if_exists="replace")
        assert caught.value.found == name.split("/", maxsplit=1)[0]
        assert (path / name).read_text() == "precious"

    def test_a_damaged_checkpoint_may_be_replaced(self, tmp_path: Path) -> None:
        path = write_checkpoint(tree(1), tmp_path / "ckpt")
        (path / "manifest.json").write_bytes((path / "manifest.json").read_bytes()[:99])
        (path / "policies" / "p0" / "state.h5").unlink()
        write_checkpoint(tree(2), path, if_exists="replace")
        assert sorted(read_checkpoint(path).children["policies"].children) == ["p0", "p1"]

    def test_a_parent_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(CheckpointError, match="was not written"):
            write_checkpoint(policy(1), tmp_path / "file" / "ckpt")


class TestWhatCouldNotBeReadBackIsRefused:
    def refused(self, snapshot: Snapshot, directory: Path, error: type[Exception], match: str, **more: Any) -> None:
        with pytest.raises(error, match=match):
            write_checkpoint(snapshot, directory / "ckpt", **more)
        assert names(directory) == []

    @pytest.mark.parametrize("depth", [65, 200, 5000])
    def test_endless_nesting(self, tmp_path: Path, depth: int) -> None:
        value: Any = 1
        for _ in range(depth):
            value = [value]
        self.refused(of({"a": value}), tmp_path, UnsupportedStateError, "cannot be read back")

    @pytest.mark.parametrize("name", ["..", "a/b", "", "manifest.json", "state.h5", "CON", "a."])
    def test_names_that_are_no_directory(self, tmp_path: Path, name: str) -> None:
        self.refused(of({}, children={name: of({})}), tmp_path, IdError, "component")

    def test_names_that_differ_in_case_only(self, tmp_path: Path) -> None:
        self.refused(of({}, children={"a": of({}), "A": of({})}), tmp_path, IdError, "one name")

    def test_a_child_and_an_entry_of_one_name(self, tmp_path: Path) -> None:
        self.refused(of({"a": np.zeros(1)}, children={"a": of({})}), tmp_path, UnsupportedStateError, "same name")

    @pytest.mark.parametrize("metadata", [{"a": float("nan")}, {"a": (1, 2)}, {"a": {1: 2}}, {"a": object()}])
    def test_metadata_that_json_lacks(self, tmp_path: Path, metadata: Any) -> None:
        self.refused(of({}, metadata=metadata), tmp_path, ManifestError, "metadata")
        self.refused(of({}), tmp_path, ManifestError, "provenance", provenance=metadata)

    def test_a_spec_that_json_lacks(self, tmp_path: Path) -> None:
        self.refused(Snapshot(Spec("rlpipe.Any", {"x": {1, 2}})), tmp_path, ManifestError, "the root, spec")

    def test_what_the_backend_cannot_hold(self, tmp_path: Path) -> None:
        self.refused(of({"a": np.zeros((1,) * 40)}), tmp_path, UnsupportedStateError, "checkpoint=pickle")
        write_checkpoint(of({"a": np.zeros((1,) * 40)}), tmp_path / "ckpt", backend="pickle")

    def test_a_list_that_should_be_an_array(self, tmp_path: Path) -> None:
        self.refused(policy(0, more=[1] * 200_000), tmp_path, UnsupportedStateError, "as arrays too")

    def test_too_much_that_is_no_array(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(writer, "MAX_MANIFEST_SIZE", 1000)
        self.refused(of({"a": b"x" * 1000}), tmp_path, UnsupportedStateError, "uint8 arrays")

    def test_too_many_components(self, tmp_path: Path) -> None:
        children = {f"p{number}": of({}) for number in range(MAX_LISTED + 1)}
        self.refused(of({}, children=children), tmp_path, UnsupportedStateError, "too many components")

    def test_arrays_that_were_not_read(self, tmp_path: Path) -> None:
        write_checkpoint(policy(1), tmp_path / "ckpt")
        with pytest.raises(UnsupportedStateError, match="was not read"):
            write_checkpoint(read_checkpoint(tmp_path / "ckpt", arrays="none"), tmp_path / "other")


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
def test_modes_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = write_checkpoint(tree(1), tmp_path / "ckpt")
    finally:
        os.umask(before)
    assert {each.stat().st_mode & 0o777 for each in (path, *path.rglob("*")) if each.is_dir()} == {0o750}
    assert {each.stat().st_mode & 0o777 for each in path.rglob("*") if each.is_file()} == {0o640}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks the system for the name behind a descriptor")
def test_everything_is_on_the_disk_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    real_sync, real_rename = os.fsync, Path.rename

    def sync(descriptor: int) -> None:
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real_sync(descriptor)

    def rename(self: Path, target: Path) -> Path:
        events.append("rename")
        return real_rename(self, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", rename)
    path = write_checkpoint(tree(2), tmp_path / "ckpt")
    directories = [path, *(each for each in path.rglob("*") if each.is_dir())]
    assert len(events) - 1 == len(files(path)) + len(directories) + 1
    assert events[-4] == "manifest.json"
    assert events[-3].startswith(".rlpipe-stage-")
    assert events[-2:] == ["rename", tmp_path.name]
    assert Counter(events)["manifest.json"] == 4
