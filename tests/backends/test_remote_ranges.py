from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import xxhash

from rlpipe.backends import remote_ranges
from rlpipe.backends.ranges import Ranges, open_ranges
from rlpipe.backends.remote_ranges import RemoteRanges
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import IntegrityError
from rlpipe.snapshot import Snapshot, Spec, content_hash
from tests.conformance.stores import Store, counted

DATA = bytes(range(256)) * 40


@pytest.fixture
def store() -> Iterator[Store]:
    with counted("ranges") as made:
        made.files.pipe_file(made.path("file"), DATA)
        yield made
        made.files.rm(made.path(), recursive=True)


def test_a_url_opens_another_kind(store: Store, tmp_path: object) -> None:
    assert type(open_ranges(f"{store.root}/file", len(DATA))) is RemoteRanges
    with pytest.raises(IntegrityError):
        open_ranges("/no/such/file", 3)
    assert issubclass(RemoteRanges, Ranges)


def test_only_what_is_wanted(store: Store) -> None:
    with store.asked() as requests, open_ranges(f"{store.root}/file", len(DATA)) as ranges:
        assert ranges.read(10, 20) == DATA[10:20]
        assert ranges.digest(30, 50) == xxhash.xxh3_128_hexdigest(DATA[30:80])
        buffer = bytearray(7)
        assert ranges.read_hashed(memoryview(buffer), 3) == xxhash.xxh3_128_hexdigest(DATA[3:10])
        assert bytes(buffer) == DATA[3:10]
        assert ranges.read(5, 5) == b""
    assert [(each.kind, each.nbytes) for each in requests] == [("head", 0), ("get", 10), ("get", 50), ("get", 7)]


def test_all_of_it_by_one_request(store: Store) -> None:
    with store.asked() as requests, open_ranges(f"{store.root}/file", len(DATA)) as ranges:
        ranges.want_all()
        assert ranges.read(0, len(DATA)) == DATA
        assert ranges.digest(0, 100) == xxhash.xxh3_128_hexdigest(DATA[:100])
    assert [(each.kind, each.nbytes) for each in requests] == [("get", len(DATA))]


@pytest.mark.parametrize("size", [len(DATA) - 1, len(DATA) + 1])
@pytest.mark.parametrize("whole", [True, False])
def test_another_size(store: Store, size: int, whole: bool) -> None:
    with open_ranges(f"{store.root}/file", size) as ranges, pytest.raises(IntegrityError, match="bytes"):
        ranges.read(0, size if whole else 3)


@pytest.mark.parametrize("whole", [True, False])
def test_no_file(store: Store, whole: bool) -> None:
    with open_ranges(f"{store.root}/none", 9) as ranges, pytest.raises(IntegrityError, match="nothing"):
        ranges.read(0, 9 if whole else 3)


def test_large_files_are_read_by_ranges(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_ranges, "_AT_ONCE", 2**20)
    state = {name: np.arange(400_000, dtype=np.float64) + index for index, name in enumerate("abc")}
    snapshot = Snapshot(Spec("rlpipe.Any"), state, dict.fromkeys(state, "inference"))
    path = f"{store.root}/large"
    write_checkpoint(snapshot, path)
    with store.asked() as requests:
        assert content_hash(read_checkpoint(path)) == content_hash(snapshot)
    sizes = [each.nbytes for each in requests if each.kind == "get" and each.path.endswith(".h5")]
    assert sorted(sizes)[-3:] == [3_200_000] * 3
    assert sum(sizes) == store.files.size(store.path("large", "state.h5"))
    assert verify_checkpoint(path).ok
    data = bytearray(store.files.cat_file(store.path("large", "state.h5")))
    data[5_000_000] ^= 1
    store.files.pipe_file(store.path("large", "state.h5"), bytes(data))
    with pytest.raises(IntegrityError, match="b have changed"):
        read_checkpoint(path)
