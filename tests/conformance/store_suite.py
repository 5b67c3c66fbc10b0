"""What has to hold for checkpoints in a store, whichever it is; a store's tests are a small subclass of this."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rlpipe.checkpoint.authenticity import sha256_of
from rlpipe.checkpoint.choose import at_step, best, latest
from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.retention import Retention
from rlpipe.checkpoint.series import Series
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import (
    CheckpointExistsError,
    CheckpointNotFoundError,
    ConfigError,
    IntegrityError,
    ManifestError,
    RlpipeError,
)
from rlpipe.snapshot import Selection, content_hash
from tests.checkpoint.components import TRUST, Net, net, policy, tree
from tests.conformance.stores import Store

ODD_NAMES = ["a b", "lr=1,seed=2", "100%", "%20", "#7", "größe-模型", "(x)[0]", "n" * 220]


def paths(requests: Any, kind: str) -> list[str]:
    return [each.path for each in requests if each.kind == kind]


class StoreSuite:
    """Subclasses have a fixture `store`."""

    @pytest.mark.parametrize("backend", ["hdf5", "pickle"])
    def test_what_is_written_is_read_and_is_what_a_local_save_writes(
        self, store: Store, backend: str, tmp_path: Path
    ) -> None:
        path = f"{store.root}/ckpt"
        write_checkpoint(tree(2), path, backend=backend)
        write_checkpoint(tree(2), tmp_path / "ckpt", backend=backend)
        assert content_hash(read_checkpoint(path)) == content_hash(tree(2))
        local = {each.relative_to(tmp_path / "ckpt").as_posix(): each for each in tmp_path.rglob("*") if each.is_file()}
        assert store.names("ckpt") == sorted(local)
        for name in local.keys() - {"manifest.json"}:
            assert store.files.cat_file(store.path("ckpt", name)) == local[name].read_bytes()

    def test_objects_are_saved_and_restored(self, store: Store) -> None:
        path = net(3).save_to_path(f"{store.root}/net")
        assert path == f"{store.root}/net"
        built = Net.from_checkpoint(path, trust=TRUST)
        assert (built.steps, built.actor.tobytes()) == (3, net(3).actor.tobytes())
        live = net(4)
        live.restore_from_path(path)
        assert live.actor.tobytes() == net(3).actor.tobytes()

    def test_array_files_come_first_and_the_roots_manifest_last(self, store: Store) -> None:
        with store.asked() as requests:
            write_checkpoint(tree(2), f"{store.root}/ckpt")
        puts = [path.removeprefix("ckpt/") for path in paths(requests, "put")]
        assert puts[0] == ".rlpipe-claim"
        assert sorted(puts[1:3]) == ["policies/p0/state.h5", "policies/p1/state.h5"]
        assert sorted(puts[3:5]) == ["policies/p0/manifest.json", "policies/p1/manifest.json"]
        assert puts[5:] == ["policies/manifest.json", "manifest.json"]
        assert ".rlpipe-claim" not in store.names("ckpt")

    def test_a_subset_fetches_its_ranges_and_the_manifests_on_the_path(self, store: Store) -> None:
        path = f"{store.root}/ckpt"
        write_checkpoint(tree(20), path)
        chosen = Selection(components=("policies/p7",), roles=frozenset({"inference"}))
        with store.asked() as requests:
            found = read_checkpoint(path, chosen)
        on_the_path = ["ckpt/manifest.json", "ckpt/policies/manifest.json", "ckpt/policies/p7/manifest.json"]
        state = "ckpt/policies/p7/state.h5"
        assert paths(requests, "get") == [*on_the_path, state]
        assert set(paths(requests, "head")) <= {state}
        wanted = inspect_checkpoint(f"{path}/policies/p7")
        first = [each for each in wanted.arrays if each.role == "inference"]
        (sent,) = [each.nbytes for each in requests if (each.kind, each.path) == ("get", state)]
        assert sent <= sum(-(-each.nbytes // 64) * 64 for each in first)
        assert "vf" not in found.children["policies"].children["p7"].state

    def test_a_whole_file_is_one_request(self, store: Store) -> None:
        write_checkpoint(policy(1), f"{store.root}/one")
        with store.asked() as requests:
            read_checkpoint(f"{store.root}/one")
        assert [(each.kind, each.path) for each in requests] == [("get", "one/manifest.json"), ("get", "one/state.h5")]

    def test_describing_opens_no_array_file(self, store: Store) -> None:
        write_checkpoint(tree(2), f"{store.root}/ckpt")
        with store.asked() as requests:
            inspect_checkpoint(f"{store.root}/ckpt")
            read_checkpoint(f"{store.root}/ckpt", arrays="none")
        assert {each.kind for each in requests} == {"get"}
        assert {path.rpartition("/")[2] for path in paths(requests, "get")} == {"manifest.json"}

    def test_many_manifests_are_asked_for_once_each(self, store: Store) -> None:
        path = f"{store.root}/ckpt"
        write_checkpoint(tree(12), path)
        with store.asked() as requests:
            assert len(list(inspect_checkpoint(path).walk())) == 14
        assert len(paths(requests, "get")) == len(set(paths(requests, "get"))) == 14
        store.files.rm_file(store.path("ckpt", "policies", "p3", "manifest.json"))
        with pytest.raises(IntegrityError, match="policies/p3 is missing"):
            read_checkpoint(path)
        store.files.pipe_file(store.path("ckpt", "policies", "p3", "manifest.json"), b"\xff")
        with pytest.raises(ManifestError, match="p3"):
            read_checkpoint(path)

    def test_verify_reads_everything(self, store: Store, tmp_path: Path) -> None:
        path = f"{store.root}/ckpt"
        write_checkpoint(tree(2), path)
        with store.asked() as requests:
            report = verify_checkpoint(path)
        assert (report.ok, report.components) == (True, 4)
        assert set(store.names("ckpt")) <= {each.removeprefix("ckpt/") for each in paths(requests, "get")}
        store.files.get(store.path("ckpt"), str(tmp_path / "copy"), recursive=True)
        assert sha256_of(path) == sha256_of(tmp_path / "copy")
        assert verify_checkpoint(path, sha256=sha256_of(path)).ok

    def test_verify_tells_what_no_manifest_lists(self, store: Store, tmp_path: Path) -> None:
        path, exports = f"{store.root}/ckpt", tmp_path / "exports"
        exports.mkdir()
        (exports / "policy.onnx").write_bytes(b"onnx")
        write_checkpoint(tree(2), path, attachments={"policies/p0": exports})
        for name in ("manifest.json", "state.h5"):
            data = store.files.cat_file(store.path("ckpt", "policies", "p0", name))
            for strange in (("policies", "p9"), ("more",)):
                store.files.pipe_file(store.path("ckpt", *strange, name), data)
        store.files.pipe_file(store.path("ckpt", "policies", "p0", "model", "more", "x.pt2"), b"x")
        store.files.pipe_file(store.path("ckpt", "policies", "p1", "notes.txt"), b"x")
        store.files.get(store.path("ckpt"), str(tmp_path / "copy"), recursive=True)
        report = verify_checkpoint(path)
        assert report.ok
        strange_ones = ("more", "policies/p9", "policies/p0/model/more/x.pt2")
        assert report.notes == tuple(f"{name} is not listed, and was ignored" for name in strange_ones)
        assert report.notes == verify_checkpoint(tmp_path / "copy").notes
        assert verify_checkpoint(f"{path}/policies").notes == verify_checkpoint(tmp_path / "copy" / "policies").notes

    @pytest.mark.parametrize("damage", ["flip", "cut", "extend", "remove", "swap"])
    def test_damage_is_found(self, store: Store, damage: str) -> None:
        path, state = f"{store.root}/ckpt", store.path("ckpt", "policies", "p0", "state.h5")
        write_checkpoint(tree(2), path)
        data = bytearray(store.files.cat_file(state))
        data[len(data) // 3] ^= 1
        if damage == "remove":
            store.files.rm_file(state)
        else:
            other = store.files.cat_file(store.path("ckpt", "policies", "p1", "state.h5"))
            made = {"flip": bytes(data), "cut": bytes(data[:-1]), "extend": bytes([*data, 0]), "swap": other}
            store.files.pipe_file(state, made[damage])
        with pytest.raises(IntegrityError, match=r"state\.h5"):
            read_checkpoint(path)
        chosen = Selection(components=("policies/p0",), keys=("encoder/*",))
        if damage != "flip":
            with pytest.raises(IntegrityError):
                read_checkpoint(path, chosen)
        report = verify_checkpoint(path)
        assert {finding.component for finding in report.findings} == {"policies/p0"}

    def test_a_manifest_that_was_edited_is_refused(self, store: Store) -> None:
        path, manifest = f"{store.root}/ckpt", store.path("ckpt", "policies", "p0", "manifest.json")
        write_checkpoint(tree(1), path)
        store.files.pipe_file(manifest, store.files.cat_file(manifest).replace(b'"seed":0', b'"seed":1'))
        with pytest.raises(ManifestError):
            read_checkpoint(path)
        assert not verify_checkpoint(path).ok

    def test_what_is_not_there(self, store: Store) -> None:
        with pytest.raises(CheckpointNotFoundError, match="nothing"):
            read_checkpoint(f"{store.root}/none")
        write_checkpoint(policy(1), f"{store.root}/one")
        store.files.rm_file(store.path("one", "manifest.json"))
        with pytest.raises(CheckpointNotFoundError, match="not whole"):
            read_checkpoint(f"{store.root}/one")

    def test_nothing_is_replaced(self, store: Store) -> None:
        path = f"{store.root}/ckpt"
        write_checkpoint(policy(1), path)
        before = sha256_of(path)
        with pytest.raises(ConfigError, match="in one step"):
            write_checkpoint(policy(2), path, if_exists="replace")
        with pytest.raises(CheckpointExistsError, match="a checkpoint"):
            write_checkpoint(policy(2), path)
        with pytest.raises(CheckpointExistsError, match="a folder with ckpt"):
            write_checkpoint(policy(2), store.root)
        store.files.pipe_file(store.path("file"), b"x")
        with pytest.raises(CheckpointExistsError):
            write_checkpoint(policy(2), f"{store.root}/file")
        assert (sha256_of(path), store.files.cat_file(store.path("file"))) == (before, b"x")
        assert store.names() == ["ckpt/manifest.json", "ckpt/state.h5", "file"]

    def test_of_two_writers_one_wins(self, store: Store) -> None:
        path, errors = f"{store.root}/ckpt", list[RlpipeError]()
        start = threading.Barrier(4)

        def write(seed: int) -> None:
            start.wait()
            try:
                write_checkpoint(tree(seed), path)
            except RlpipeError as error:
                errors.append(error)

        writers = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2, 3, 4)]
        for each in writers:
            each.start()
        for each in writers:
            each.join()
        assert [type(error) for error in errors] == [CheckpointExistsError] * 3
        assert verify_checkpoint(path).ok
        assert ".rlpipe-claim" not in store.names("ckpt")

    def test_the_claim_of_a_writer_that_died_is_told(self, store: Store) -> None:
        store.files.pipe_file(store.path("ckpt", ".rlpipe-claim"), b"x")
        with pytest.raises(CheckpointExistsError, match="rlpipe-claim"):
            write_checkpoint(policy(1), f"{store.root}/ckpt")
        assert store.names("ckpt") == [".rlpipe-claim"]

    def test_a_series_and_what_it_keeps(self, store: Store) -> None:
        series = Series(folder=store.root, retention=Retention(keep_last=2))
        for step in (999, 1_000, 20_000, 10_000):
            series.write(policy(step), step=step, score=-abs(step - 1_000))
        assert {name.split("/")[0] for name in store.names()} == {"step-1000", "step-10000", "step-20000"}
        assert str(latest(store.root).checkpoint.path) == f"{store.root}/step-20000"
        assert best(store.root).checkpoint.step == 1_000
        assert at_step(store.root, 10_000).checkpoint.score == -9_000
        with pytest.raises(CheckpointExistsError):
            series.write(policy(1), step=20_000)
        with pytest.raises(ConfigError):
            Series(folder=store.root, if_exists="replace").write(policy(1), step=1)

    def test_what_else_lies_in_a_checkpoint_stays_with_it(self, store: Store) -> None:
        series = Series(folder=store.root, retention=Retention(keep_last=1))
        series.write(tree(1), step=1)
        store.files.pipe_file(store.path("step-1", "policies", "p0", "notes.txt"), b"mine")
        series.write(tree(1), step=2)
        series.write(tree(1), step=3)
        assert {name.split("/")[0] for name in store.names()} == {"step-1", "step-3"}
        assert at_step(store.root, 1).checkpoint.step == 1

    def test_choosing_passes_over_what_is_not_whole(self, store: Store) -> None:
        series = Series(folder=store.root)
        for step in (1, 2, 3):
            series.write(tree(1), step=step)
        store.files.rm_file(store.path("step-3", "manifest.json"))
        store.files.pipe_file(store.path("step-2", "policies", "p0", "state.h5"), b"")
        store.files.pipe_file(store.path("logs", "events"), b"")
        choice = latest(store.root)
        assert choice.checkpoint.step == 1
        assert [note.split(":", 2)[1].rpartition("/")[2] for note in choice.notes] == ["step-3", "step-2"]

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names(self, store: Store, name: str) -> None:
        path = f"{store.root}/{name}/ckpt"
        write_checkpoint(policy(1), path)
        assert content_hash(read_checkpoint(path)) == content_hash(policy(1))
        assert store.names(name, "ckpt") == ["manifest.json", "state.h5"]
        assert latest(f"{store.root}/{name}").checkpoint.path.name == "ckpt"

    def test_what_cannot_be_saved_reaches_no_store(self, store: Store) -> None:
        with store.asked() as requests, pytest.raises(RlpipeError):
            write_checkpoint(policy(1, more=object()), f"{store.root}/ckpt")
        assert paths(requests, "put") == []


def secrets(environment: Mapping[str, str]) -> set[str]:
    """What must never be told."""
    return {environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]}
