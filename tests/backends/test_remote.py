from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rlpipe.backends.remote import Url, is_url
from rlpipe.errors import CheckpointError, ConfigError, MissingDependencyError
from tests.conformance.stores import CountedStore, counted

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://bucket/a", True),
        ("memory://a", True),
        ("file:///a", True),
        ("a/b", False),
        ("/a://b", False),
        ("C:\\a", False),
        ("://a", False),
        ("1a://b", False),
    ],
)
def test_what_names_a_store(text: str, expected: bool) -> None:
    assert is_url(text) is expected


def test_parts_of_a_url() -> None:
    url = Url("s3://bucket/run/a b")
    assert (url.scheme, url.name, str(url.parent), str(url / "x")) == ("s3", "a b", "s3://bucket/run", f"{url}/x")
    assert str(Url("s3://bucket").parent) == "s3://bucket"
    assert os.fspath(url) == str(url) == url.as_posix()
    assert url / "" == url


@pytest.mark.parametrize(
    "text",
    ["sftp://me:geheim@host/x", "s3://id:geheim@bucket/x", "https://host/m.zip?signature=geheim", "http://h/?geheim"],
)
def test_secrets_in_a_url_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Url(text)
    assert "geheim" not in str(caught.value)


def test_what_may_stand_in_a_name_is_no_secret() -> None:
    for text in ("s3://bucket/a:b@c", "s3://bucket/what?", "sftp://me@host/x", "https://host/a:b@c"):
        assert Url(text).text == text


def test_what_is_below_is_told_by_kind() -> None:
    with counted("kinds") as store:
        store.files.pipe_file(store.path("file"), b"abc")
        store.files.pipe_file(store.path("folder", "file"), b"de")
        root = Url(store.root)
        assert [each.name for each in root.iterdir()] == ["file", "folder"]
        assert [each.name for each in root.folders()] == ["folder"]
        assert ((root / "file").is_file(), (root / "folder").is_dir(), (root / "none").exists()) == (True, True, False)
        assert ((root / "file").size(), root.total_size(), root.holds_files()) == (3, 5, True)
        assert (root / "file").read(1, 100) == b"bc"
        (root / "file").remove()
        (root / "folder" / "file").remove()
        store.files.makedirs(store.path("empty", "inner"))
        assert (root.exists(), root.holds_files()) == (True, False)


def test_a_new_file_is_made_once() -> None:
    with counted("once") as store:
        (Url(store.root) / "a").create(b"1")
        with pytest.raises(FileExistsError):
            (Url(store.root) / "a").create(b"2")
        assert (Url(store.root) / "a").read(0, 9) == b"1"


def test_a_strange_error_is_told_without_secrets() -> None:
    with counted("strange") as store:

        def fault(request: object) -> None:
            raise RuntimeError("GET https://me:geheim@host/x?sig=geheim failed\nmore geheim")

        CountedStore.fault = staticmethod(fault)
        with pytest.raises(CheckpointError) as caught:
            Url(store.root).exists()
        assert "RuntimeError: GET https..." in str(caught.value)
        assert "geheim" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


def test_a_scheme_that_nobody_knows() -> None:
    with pytest.raises(ConfigError, match="nobody knows the scheme foo://"):
        Url("foo://x").exists()


@pytest.mark.parametrize(
    ("package", "url", "fix"),
    [("s3fs", "s3://b/x", "rlpipe[remote]"), ("fsspec", "s3://b/x", "rlpipe[remote]"), ("gcsfs", "gs://b/x", "gcsfs")],
)
def test_a_missing_package_names_the_extra(package: str, url: str, fix: str) -> None:
    code = f"""
import sys
sys.modules[{package!r}] = None
from rlpipe.backends.remote import Url
from rlpipe.errors import MissingDependencyError
try:
    Url({url!r}).exists()
except MissingDependencyError as error:
    print(error.package, error)
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(package)
    assert fix in done.stdout
    assert issubclass(MissingDependencyError, ImportError)


def test_of_threads_that_create_one_file_one_does() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for turn in range(50):
            created = list[int]()
            start = threading.Barrier(4)

            def create(number: int, start: threading.Barrier, created: list[int], place: Url) -> None:
                start.wait()
                try:
                    place.create(b"x")
                except FileExistsError:
                    return
                created.append(number)

            place = Url(f"memory://created/{turn}")
            threads = [threading.Thread(target=create, args=(number, start, created, place)) for number in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            assert len(created) == 1
    finally:
        sys.setswitchinterval(before)
        Url("memory://created").remove_all()
