"""Checkpoints in a store: in memory, with every question counted, and by S3 on the loopback."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlpipe.checkpoint.choose import latest, survey
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.retention import Retention
from rlpipe.checkpoint.series import Series
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import CheckpointError, CheckpointNotFoundError, StoreError
from rlpipe.snapshot import Selection, content_hash
from tests.checkpoint.components import policy, tree
from tests.conformance.store_suite import StoreSuite
from tests.conformance.stores import CountedStore, Request, S3Server, Store, counted, s3_server


@pytest.fixture
def memory() -> Iterator[Store]:
    with counted(secrets.token_hex(4)) as store:
        yield store


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


class TestMemory(StoreSuite):
    @pytest.fixture
    def store(self, memory: Store) -> Store:
        return memory


class TestS3(StoreSuite):
    @pytest.fixture
    def store(self, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Store:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        bucket = f"bucket-{secrets.token_hex(4)}"
        store = Store(f"s3://{bucket}/runs", server.requests)
        store.files.mkdir(bucket)
        while not any(each.kind == "put" and each.path.strip("/") == bucket for each in server.requests):
            time.sleep(0.01)  # A thread tells of it, and a test counts what comes later.
        return store

    @pytest.mark.usefixtures("store")
    def test_a_bucket_that_is_not_there(self) -> None:
        with pytest.raises(CheckpointError, match="nothing can be written"):
            write_checkpoint(policy(1), "s3://no-such-bucket/x")
        with pytest.raises(CheckpointNotFoundError):
            read_checkpoint("s3://no-such-bucket/x")

    def test_credentials_are_told_by_nobody(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        store.files.clear_instance_cache()
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        with pytest.raises(CheckpointError) as caught:
            read_checkpoint(f"{store.root}/x")
        assert "cannot be reached" in str(caught.value)
        assert "a-secret-key" not in str(caught.value)
        assert "an-id" not in str(caught.value)
        assert caught.value.__cause__ is None
        store.files.clear_instance_cache()

    @pytest.mark.parametrize(("ending", "code"), [("", 0), ("raise ZeroDivisionError", 1)])
    def test_the_end_of_the_process_waits_for_the_save(self, store: Store, ending: str, code: int) -> None:
        train = f"""
from rlpipe.checkpoint.async_save import AsyncSaver
from rlpipe.checkpoint.series import Series
from tests.checkpoint.components import tree
AsyncSaver(Series(folder={store.root!r})).save(tree(5), step=1)
{ending}
"""
        command, root = [sys.executable, "-c", train], Path(__file__).parents[2]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=100)
        assert done.returncode == code, done.stderr
        assert "cannot be reached" not in done.stderr
        store.files.invalidate_cache()
        assert content_hash(read_checkpoint(f"{store.root}/step-1")) == content_hash(tree(5))


def broken_at(number: int) -> Any:
    """Refuses the request of this number, counted from 0, and all writes after it."""
    seen: list[Request] = []

    def fault(request: Request) -> None:
        if request.kind == "put":
            seen.append(request)
            if len(seen) > number:
                raise OSError("the store is full")

    return staticmethod(fault)


@pytest.mark.parametrize("number", range(7))
def test_wherever_the_store_fails_there_is_no_checkpoint(memory: Store, number: int) -> None:
    path = f"{memory.root}/ckpt"
    CountedStore.fault = broken_at(number)
    with pytest.raises(CheckpointError, match="cannot be reached") as caught:
        write_checkpoint(tree(2), path)
    assert "the store is full" in str(caught.value)
    CountedStore.fault = staticmethod(lambda _: None)
    with pytest.raises(CheckpointNotFoundError):
        read_checkpoint(path)
    if number < 6:
        assert memory.names("ckpt") == []
        write_checkpoint(tree(2), path)
        assert verify_checkpoint(path).ok


def test_a_killed_upload_is_no_checkpoint(memory: Store) -> None:
    path = f"{memory.root}/ckpt"
    write_checkpoint(tree(2), path)
    names = memory.names("ckpt")
    order = [name for name in names if not name.endswith("manifest.json")]
    for kept in range(len(names)):
        folder = f"{memory.root}/killed-{kept}"
        for name in [*order, "policies/p0/manifest.json", "policies/p1/manifest.json", "policies/manifest.json"][:kept]:
            data = memory.files.cat_file(memory.path("ckpt", name))
            memory.files.pipe_file(memory.path(f"killed-{kept}", name), data)
        with pytest.raises(CheckpointNotFoundError):
            read_checkpoint(folder)


def test_a_store_that_does_not_know_new_files(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = CountedStore.pipe_file

    def without_modes(self: Any, path: str, value: bytes) -> None:
        plain(self, path, value)

    monkeypatch.setattr(CountedStore, "pipe_file", without_modes)
    path = f"{memory.root}/ckpt"
    write_checkpoint(tree(1), path)
    assert content_hash(read_checkpoint(path)) == content_hash(tree(1))


def test_the_manifests_in_a_store_name_no_place(memory: Store) -> None:
    write_checkpoint(tree(1), f"{memory.root}/ckpt")
    for name in memory.names("ckpt"):
        assert memory.root.rpartition("/")[2].encode() not in memory.files.cat_file(memory.path("ckpt", name))
    assert json.loads(memory.files.cat_file(memory.path("ckpt", "manifest.json")))["origin"]["provenance"] == {}


def test_a_folder_that_is_gone_meanwhile(memory: Store) -> None:
    def fault(request: Request) -> None:
        if request.path.endswith("state.h5"):
            raise FileNotFoundError(request.path)

    CountedStore.fault = staticmethod(fault)
    with pytest.raises(CheckpointError, match="was not written"):
        write_checkpoint(policy(1), f"{memory.root}/ckpt")


def test_no_room_for_the_stage(memory: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(CheckpointError, match="was not written") as caught:
        write_checkpoint(policy(1), f"{memory.root}/ckpt")
    assert "TMPDIR" in caught.value.expected
    assert memory.names("ckpt") == []


def test_many_files_are_asked_for_at_once_and_not_too_many(memory: Store) -> None:
    path, lock, now, most = f"{memory.root}/ckpt", threading.Lock(), 0, 0

    def slowly(_: Request) -> None:
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        time.sleep(0.002)
        with lock:
            now -= 1

    write_checkpoint(tree(40), path)
    CountedStore.fault = staticmethod(slowly)
    part = Selection(components=("policies/p1*",))
    for ask in (
        read_checkpoint,
        verify_checkpoint,
        lambda _: read_checkpoint(path, part),
        lambda _: latest(memory.root),
    ):
        most = 0
        ask(path)
        assert 4 <= most <= 16
    assert content_hash(read_checkpoint(path)) == content_hash(tree(40))


def test_the_first_failure_is_told_and_the_rest_is_not_asked_for(memory: Store) -> None:
    def fail(request: Request) -> None:
        if request.kind == "get" and request.path.endswith("p3/state.h5"):
            raise PermissionError("no")

    path = f"{memory.root}/ckpt"
    write_checkpoint(tree(200), path)
    CountedStore.fault = staticmethod(fail)
    with memory.asked() as requests, pytest.raises(StoreError, match=r"p3/state\.h5 cannot be reached"):
        read_checkpoint(path)
    assert len([each for each in requests if each.path.endswith("state.h5")]) < 200


def test_a_store_that_does_not_answer_is_neither_damage_nor_passed_over(
    memory: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """The latest may be whole: nothing older is taken for it, and none is removed in its place."""

    def fail(request: Request) -> None:
        if request.kind == "get" and "step-3" in request.path:
            raise ConnectionError("the store is away")

    series = Series(folder=memory.root)
    for step in (1, 2, 3):
        series.write(tree(2), step=step)
    CountedStore.fault = staticmethod(fail)
    with pytest.raises(StoreError, match=r"step-3/manifest\.json cannot be reached"):
        latest(memory.root)
    replace(series, retention=Retention(keep_last=1)).write(tree(2), step=4)
    assert "were not removed" in caplog.text
    CountedStore.fault = staticmethod(lambda _: None)
    assert [each.step for each in survey(memory.root).found] == [1, 2, 3, 4]
